#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "strata/dtype.hpp"
#include "strata/layout.hpp"

namespace strata::nccl {

/// The part of NCCL that the communicator calls. Tests substitute an implementation in host memory. Handles are
/// ncclComm_t and cudaStream_t. Communicators are non-blocking: every call returns at once, and the next call must wait
/// until is_ready() returns true. Functions throw RuntimeError with NCCL's explanation.
class NcclLibrary {
 public:
  virtual ~NcclLibrary();

  /// The version, such as "2.28.9".
  [[nodiscard]] virtual std::string version() const = 0;

  /// Makes the id that the ranks of a new communicator must share.
  [[nodiscard]] virtual std::string make_id() = 0;
  /// Starts to create a communicator of `size` ranks, for the rank at position `index`, on this thread's GPU. `blocks`:
  /// upper limit of the blocks of its kernels, equal on all of its ranks. 0 lets NCCL choose.
  [[nodiscard]] virtual void* begin_communicator(const std::string& id, int size, int index, int blocks) = 0;
  /// False while the last call is in progress. Throws if communication on the communicator has failed.
  [[nodiscard]] virtual bool is_ready(void* communicator) = 0;

  /// Starts a collective or message on `stream`. `elements` counts the input on this rank.
  virtual void all_reduce(void* communicator, void* stream, const void* input, void* output, std::int64_t elements,
                          DType dtype, Reduction reduction) = 0;
  virtual void all_gather(void* communicator, void* stream, const void* input, void* output, std::int64_t elements,
                          DType dtype) = 0;
  virtual void reduce_scatter(void* communicator, void* stream, const void* input, void* output,
                              std::int64_t output_elements, DType dtype, Reduction reduction) = 0;
  virtual void broadcast(void* communicator, void* stream, const void* input, void* output, std::int64_t elements,
                         DType dtype, int root) = 0;
  virtual void send(void* communicator, void* stream, const void* data, std::int64_t bytes, int peer) = 0;
  virtual void receive(void* communicator, void* stream, void* data, std::int64_t bytes, int peer) = 0;
  /// Fuses the calls of this thread between begin_group() and end_group() into one.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;

  /// Starts to end a communicator whose work has ended. Call destroy() when it is ready.
  virtual void finalize(void* communicator) = 0;
  virtual void destroy(void* communicator) = 0;
  /// Ends a communicator in any state, including its communication in progress.
  virtual void abort(void* communicator) noexcept = 0;
};

}  // namespace strata::nccl

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "strata/dtype.hpp"
#include "strata/layout.hpp"

namespace strata::nccl {

/// What the communicator uses of NCCL; tests have one of their own. Handles are ncclComm_t and cudaStream_t.
/// Communicators are non-blocking: every call on one returns at once, and the next may follow when is_ready() says so.
/// Calls throw RuntimeError with NCCL's explanation.
class NcclLibrary {
 public:
  virtual ~NcclLibrary();

  /// "2.28.9".
  [[nodiscard]] virtual std::string version() const = 0;

  /// What the ranks of a new communicator must share.
  [[nodiscard]] virtual std::string make_id() = 0;
  /// Begins to make the communicator of `size` ranks for the one at position `index`, on this thread's GPU.
  [[nodiscard]] virtual void* begin_communicator(const std::string& id, int size, int index) = 0;
  /// False while the last call is under way. Also throws if a communication that was started has failed.
  [[nodiscard]] virtual bool is_ready(void* communicator) = 0;

  /// `elements` of the input on this rank; reduce_scatter divides it by the number of ranks.
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
  /// What this thread calls between the two runs as one.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;

  /// Begins to end a communicator whose work is done; destroy() follows when it is ready.
  virtual void finalize(void* communicator) = 0;
  virtual void destroy(void* communicator) = 0;
  /// Ends a communicator and what is under way on it, in whatever state.
  virtual void abort(void* communicator) noexcept = 0;
};

}  // namespace strata::nccl

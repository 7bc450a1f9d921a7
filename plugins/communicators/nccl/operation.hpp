#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gpu_runtime.hpp"
#include "link.hpp"
#include "strata/communicator.hpp"

namespace strata::nccl {

/// One communication of one rank.
struct Operation {
  enum class Kind : std::uint8_t { collective, send, receive };
  Kind kind = Kind::collective;
  int rank = 0;
  /// A copy: errors may name the communication after its caller has gone.
  std::string name;
  CollectiveCall call;  // collective
  MessageCall message;  // send, receive
  /// Null for a message to this rank itself.
  std::shared_ptr<Link> link;
  /// Of a message from this rank to itself, at its receive: what is sent.
  const void* own_message = nullptr;
  /// The point of the compute stream after which the buffers may be touched.
  EventPointer ready;
  /// The point after the communication; set when `launched` is.
  EventPointer done;
  /// It is on its stream. Guarded by the engine's mutex.
  bool launched = false;

  /// Whether it moves nothing.
  [[nodiscard]] bool is_empty() const { return kind == Kind::collective ? call.elements == 0 : message.bytes == 0; }
};

using OperationPointer = std::shared_ptr<Operation>;

/// "all_reduce 'bucket 3' (id 17)" or "receive 'x' (id 4) from rank 2".
[[nodiscard]] std::string describe(const Operation& operation);
/// "rank 1: all_reduce 'x' (id 5): why".
[[nodiscard]] std::string fault_text(const Operation& operation, const std::string& why);

/// Puts the communication on `stream`. Its link is ready. \return false if that is all, true if NCCL was called: then
/// it is on the stream once the link is idle.
[[nodiscard]] bool enqueue(const Operation& operation, NcclLibrary& nccl, GpuRuntime& gpu, void* stream);

}  // namespace strata::nccl

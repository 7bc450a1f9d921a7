#pragma once

#include <memory>

#include "gpu_runtime.hpp"
#include "link.hpp"
#include "shared/operation.hpp"

namespace strata::nccl {

/// One communication of one rank.
struct Operation : communicators::Operation {
  using communicators::Operation::Operation;

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
  /// A capture has it: once launched, it is carried out with every launch of a graph.
  bool captured = false;
  /// Of one that uses its link in a graph: the points of the last launch before and after it.
  EventPointer begun;
  EventPointer ended;

  /// Whether it moves nothing.
  [[nodiscard]] bool is_empty() const { return kind == Kind::collective ? call.elements == 0 : message.bytes == 0; }
  /// Whether other ranks take part.
  [[nodiscard]] bool uses_link() const { return link && link->size() > 1 && !is_empty(); }
  /// Whether graphs are watched for it.
  [[nodiscard]] bool is_in_graph() const { return captured && uses_link(); }
};

using OperationPointer = std::shared_ptr<Operation>;

/// Puts the communication on `stream`. Its link is ready. \return false if that is all, true if NCCL was called: then
/// it is on the stream once the link is idle.
[[nodiscard]] bool enqueue(const Operation& operation, NcclLibrary& nccl, GpuRuntime& gpu, void* stream);

}  // namespace strata::nccl

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collectives/operation.hpp"
#include "graph_marks.hpp"
#include "link.hpp"
#include "strata/error.hpp"

namespace strata::nccl {

/// One communication of one rank.
struct Operation : communicators::Operation {
  using communicators::Operation::Operation;

  /// The link to the other ranks. Null for a message to this rank itself.
  std::shared_ptr<Link> link;
  /// In a receive from this rank itself: the data to copy.
  const void* own_message = nullptr;
  /// The event of the compute stream after which the buffers may be accessed.
  EventPointer ready;
  /// The event after the communication. Set together with `launched`.
  EventPointer done;
  /// True if the operation is on its stream. Guarded by the engine's mutex.
  bool launched = false;
  /// True if the operation was captured. Once launched, it runs with every launch of the graph.
  bool captured = false;
  /// Earlier collectives of other groups that access the same memory.
  std::vector<std::shared_ptr<Operation>> after;
  /// For a collective: true if the compute stream waits for it, so that later operations run after it. Used by the
  /// rank's thread only.
  bool waited = false;
  /// For an operation in a graph: the marks that each launch sets before and after it.
  std::optional<OperationMarks> marks;

  /// True if no data is communicated.
  [[nodiscard]] bool is_empty() const { return kind == Kind::collective ? call.elements == 0 : message.bytes == 0; }
  /// True if other ranks take part.
  [[nodiscard]] bool uses_link() const { return link && link->size() > 1 && !is_empty(); }
};

using OperationPointer = std::shared_ptr<Operation>;
using Operations = std::vector<OperationPointer>;

/// Runs `work`. Adds the operation's name to the message of an error.
template <class Work>
auto named(const Operation& operation, const Work& work) {
  try {
    return work();
  } catch (...) {
    throw RuntimeError(fault_text(operation, current_exception_text()));
  }
}

/// Enqueues the communication on `stream`. Its link must be ready. \return true if NCCL was called: the communication
/// is then on the stream once the link is idle. False if it is on the stream at once.
[[nodiscard]] bool enqueue(const Operation& operation, NcclLibrary& nccl, GpuRuntime& gpu, void* stream);

}  // namespace strata::nccl

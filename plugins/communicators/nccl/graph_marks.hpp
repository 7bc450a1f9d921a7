#pragma once

#include <cstdint>
#include <memory>

#include "backend.hpp"

namespace strata::nccl {

/// Two bytes of pinned memory that a launch of a graph sets before and after a communication. An event cannot tell a
/// launch from the previous one, because it keeps its old state until the graph reaches it. The stream that launches
/// the graph clears the marks after each launch.
struct OperationMarks {
  unsigned char* begun = nullptr;
  unsigned char* ended = nullptr;

  /// True if the current launch has reached the communication, or has finished it.
  [[nodiscard]] bool is_begun() const { return is_set(begun); }
  [[nodiscard]] bool is_ended() const { return is_set(ended); }

 private:
  static bool is_set(unsigned char* mark);
};

/// The marks of a communicator's graphs. Marks are taken and given back by the rank's thread only.
class GraphMarks {
 public:
  /// Allocates all marks, because a capture forbids allocations.
  explicit GraphMarks(GpuRuntime& gpu);

  /// The number of marks in use.
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Takes the marks of one more communication. \throws RuntimeError if all are in use.
  [[nodiscard]] OperationMarks take();
  /// Gives back all marks except the first `count`, after a capture that failed.
  void give_back(std::int64_t count) { count_ = count; }
  /// Enqueues the clearing of the marks from `begin` to before `end`.
  void clear(GpuRuntime& gpu, void* stream, std::int64_t begin, std::int64_t end) const;

 private:
  std::shared_ptr<void> memory_;
  std::int64_t count_ = 0;
};

}  // namespace strata::nccl

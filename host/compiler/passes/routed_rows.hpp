#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// An instruction of a task whose op skips rows (OpDefinition::routed_rows).
struct RoutedOp {
  std::size_t at = 0;
  RoutedRows rows;
};

/// The collective of a buffer's rows, with the copies beside it, as positions in a task. The copies change the order of
/// the rows: a pack sorts them by the ranks that get them, and an unpack by their places in the dimension.
struct RowPath {
  std::optional<std::size_t> pack;
  std::size_t collective = 0;
  std::optional<std::size_t> unpack;
};

/// How rows come to the routed ops of one task, and how their results leave.
class RoutedRowUses {
 public:
  RoutedRowUses(const Program& program, const Task& task, const OpRegistry& registry);

  /// By the buffer of their marks.
  [[nodiscard]] const std::map<BufferId, std::vector<RoutedOp>>& ops() const { return ops_; }
  /// The collective that writes operand `operand`. Empty if something else does, or in another task.
  [[nodiscard]] std::optional<RowPath> arriving(BufferId operand) const;
  /// The collective that alone reads `result`. Empty if something else does.
  [[nodiscard]] std::optional<RowPath> leaving(BufferId result) const;
  /// Positions of the readers of `buffer`. Empty if another task or the host uses it too.
  [[nodiscard]] std::optional<std::vector<std::size_t>> readers(BufferId buffer) const;
  /// Position of the only instruction of the task that writes `buffer`, if it is the only one.
  [[nodiscard]] std::optional<std::size_t> writer(BufferId buffer) const;
  /// True if all instructions of the task that write `buffer` stand before `at`.
  [[nodiscard]] bool is_written_before(BufferId buffer, std::size_t at) const;

  [[nodiscard]] const Instruction& instruction(std::size_t at) const { return task_.instructions[at]; }
  /// The buffer that a path begins with, and the one that it ends with.
  [[nodiscard]] BufferId first(const RowPath& path) const;
  [[nodiscard]] BufferId last(const RowPath& path) const;

 private:
  [[nodiscard]] bool is_copy(std::optional<std::size_t> at, Copy::Kind kind) const;

  const Task& task_;
  std::map<BufferId, std::vector<RoutedOp>> ops_;
  std::map<BufferId, std::vector<std::size_t>> readers_;
  std::map<BufferId, std::vector<std::size_t>> writers_;
  /// Buffers that other tasks or the host use.
  std::set<BufferId> used_elsewhere_;
};

}  // namespace strata::host

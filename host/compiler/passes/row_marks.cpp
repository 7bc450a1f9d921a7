#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/routed_rows.hpp"

namespace strata::host {
namespace {

/// Marks the collectives of one task.
class TaskMarks {
 public:
  TaskMarks(Program& program, const OpRegistry& registry, Task& task)
      : program_(program), task_(task), uses_(program, task, registry) {}

  void run() {
    for (const auto& [marks, ops] : uses_.ops()) {
      const std::optional<RowPath> path = uses_.arriving(marks);
      if (!path || collective(path->collective).kind != CollectiveKind::all_to_all) continue;
      for (const RoutedOp& op : ops) mark(marks, *path, op);
    }
    if (!moved_.empty()) move_marked();
  }

 private:
  void mark(BufferId marks, const RowPath& path, const RoutedOp& op) {
    const Instruction& compute = uses_.instruction(op.at);
    for (const int operand : op.rows.operands) {
      const BufferId buffer = compute.inputs[static_cast<std::size_t>(operand)];
      const std::optional<RowPath> rows = uses_.arriving(buffer);
      if (!rows || collective(rows->collective).kind != CollectiveKind::all_gather) continue;
      const BufferId arrived = uses_.instruction(rows->collective).outputs[0];
      if (!is_read_by(buffer, marks, *rows) || !is_read_by(arrived, marks, *rows)) continue;
      if (fits(path, *rows, uses_.first(*rows))) add_marks(marks, path, rows->collective, true);
    }
    for (const int result : op.rows.results) {
      const BufferId buffer = compute.outputs[static_cast<std::size_t>(result)];
      const std::optional<RowPath> rows = uses_.leaving(buffer);
      if (!rows || collective(rows->collective).kind != CollectiveKind::reduce_scatter) continue;
      // Rows that are added to other contents are not 0.
      if (compute.as<Compute>()->accumulate || !uses_.writer(buffer)) continue;
      if (fits(path, *rows, uses_.last(*rows))) add_marks(marks, path, rows->collective, false);
    }
  }

  [[nodiscard]] const Collective& collective(std::size_t at) const { return *uses_.instruction(at).as<Collective>(); }

  /// True if only ops with these marks read `buffer`, or the unpacking of `rows`.
  [[nodiscard]] bool is_read_by(BufferId buffer, BufferId marks, const RowPath& rows) const {
    const auto readers = uses_.readers(buffer);
    const std::vector<RoutedOp>& ops = uses_.ops().at(marks);
    return readers && std::ranges::all_of(*readers, [&](std::size_t reader) {
             return reader == rows.unpack ||
                    std::ranges::any_of(ops, [&](const RoutedOp& op) { return op.at == reader; });
           });
  }

  /// True if a rank's rows, in `of_rank`, and the marks of `path` travel in one order, among the same ranks.
  [[nodiscard]] bool fits(const RowPath& path, const RowPath& rows, BufferId of_rank) const {
    const Collective& one = collective(path.collective);
    const Collective& other = collective(rows.collective);
    if (one.axes != other.axes || one.members != other.members || path.unpack.has_value() != has_order(rows)) {
      return false;
    }
    const Buffer& marked = program_.buffer(of_rank);
    const Buffer& marks = program_.buffer(uses_.first(path));
    const auto leading = [](auto list) {
      if (!list.empty()) list.pop_back();
      return list;
    };
    return !marks.shape.empty() && leading(marked.shape) == leading(marks.shape) &&
           leading(marked.dims) == leading(marks.dims);
  }

  /// True if the rows of all ranks are put in another order than that of the ranks.
  [[nodiscard]] static bool has_order(const RowPath& rows) { return rows.pack.has_value() || rows.unpack.has_value(); }

  void add_marks(BufferId marks, const RowPath& path, std::size_t at, bool is_arriving) {
    Instruction& marked = task_.instructions[at];
    if (marked.as<Collective>()->marks > 0) return;
    const BufferId own = uses_.instruction(path.collective).inputs[0];
    const BufferId of_others = uses_.instruction(path.collective).outputs[0];
    marked.as<Collective>()->marks = program_.buffer(marks).shape.back();
    marked.inputs = {marked.inputs[0], is_arriving ? own : of_others, is_arriving ? of_others : own};
    if (at < path.collective) moved_.push_back({at, path.collective});
  }

  /// Moves marked collectives, with the copies that unpack them, behind the exchange of the marks.
  void move_marked() {
    std::map<std::size_t, std::vector<std::size_t>> behind;
    std::vector<bool> leaves(task_.instructions.size());
    for (const auto& [at, exchange] : moved_) {
      const BufferId arrived = task_.instructions[at].outputs[0];
      for (std::size_t next = at; next < exchange; ++next) {
        const std::vector<BufferId>& inputs = task_.instructions[next].inputs;
        if (next != at && !contains(inputs, arrived)) continue;
        behind[exchange].push_back(next);
        leaves[next] = true;
      }
    }
    std::vector<Instruction> result;
    for (std::size_t at = 0; at < task_.instructions.size(); ++at) {
      if (!leaves[at]) result.push_back(std::move(task_.instructions[at]));
      for (const std::size_t each : behind[at]) result.push_back(std::move(task_.instructions[each]));
    }
    task_.instructions = std::move(result);
  }

  Program& program_;
  Task& task_;
  const RoutedRowUses uses_;
  /// Positions of a marked collective and of the exchange of its marks.
  std::vector<std::pair<std::size_t, std::size_t>> moved_;
};

}  // namespace

void mark_routed_rows(Program& program, const OpRegistry& registry) {
  for (Task& task : program.tasks) TaskMarks(program, registry, task).run();
}

}  // namespace strata::host

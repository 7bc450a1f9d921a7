#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/routed_rows.hpp"

namespace strata::host {
namespace {

/// The instructions that are split together: the routed ops with the same marks, and what brings rows to them and away.
struct RoutedGroup {
  std::vector<RoutedOp> ops = {};
  /// By buffer that an op reads.
  std::map<BufferId, RowPath> arriving = {};
  /// By buffer that an op writes. Other results are sums over rows.
  std::map<BufferId, RowPath> leaving = {};
  /// Positions of all instructions.
  std::set<std::size_t> members = {};
  /// The axis of all collectives.
  Axis axis = {};
  /// Leading dimensions of a rank's rows, which every path begins or ends with, without the last dimension.
  Shape leading = {};
};

/// Finds the routed ops of one task all of whose rows are exchanged over one axis, for nothing else.
class GroupFinder {
 public:
  GroupFinder(const Program& program, const RoutedRowUses& uses) : program_(program), uses_(uses) {}

  /// Empty if the ops cannot be split.
  std::optional<RoutedGroup> find(BufferId marks, const std::vector<RoutedOp>& ops) {
    group_ = {.ops = ops};
    if (!add_arriving(marks, CollectiveKind::all_to_all)) return std::nullopt;
    for (const RoutedOp& op : ops) {
      const Instruction& compute = uses_.instruction(op.at);
      group_.members.insert(op.at);
      for (const int operand : op.rows.operands) {
        if (!add_arriving(compute.inputs[static_cast<std::size_t>(operand)], CollectiveKind::all_gather)) {
          return std::nullopt;
        }
      }
      if (!has_other_operands(compute, ops.front().at) || !add_results(op, compute)) return std::nullopt;
    }
    return serves_the_group_alone() ? std::optional(std::move(group_)) : std::nullopt;
  }

 private:
  /// True if all operands that no path brings are there before the instruction at `begin`.
  [[nodiscard]] bool has_other_operands(const Instruction& compute, std::size_t begin) const {
    return std::ranges::all_of(compute.inputs, [&](BufferId input) {
      return group_.arriving.contains(input) || uses_.is_written_before(input, begin);
    });
  }

  bool add_arriving(BufferId operand, CollectiveKind kind) {
    if (group_.arriving.contains(operand)) return true;
    const std::optional<RowPath> path = uses_.arriving(operand);
    if (!path || !add(*path, kind, uses_.first(*path))) return false;
    group_.arriving[operand] = *path;
    return true;
  }

  bool add_results(const RoutedOp& op, const Instruction& compute) {
    if (op.rows.results.empty()) {
      // A sum that another instruction adds to could begin with the op, or end with it.
      return std::ranges::all_of(compute.outputs, [this](BufferId output) { return uses_.writer(output).has_value(); });
    }
    if (op.rows.results.size() != compute.outputs.size() || compute.as<Compute>()->accumulate) return false;
    return std::ranges::all_of(compute.outputs, [this](BufferId output) {
      const std::optional<RowPath> path = uses_.leaving(output);
      if (!path || !uses_.writer(output)) return false;
      const bool is_sum = uses_.instruction(path->collective).as<Collective>()->kind == CollectiveKind::reduce_scatter;
      if (!add(*path, is_sum ? CollectiveKind::reduce_scatter : CollectiveKind::all_to_all, uses_.last(*path))) {
        return false;
      }
      group_.leaving[output] = *path;
      return true;
    });
  }

  /// `of_rank`: the buffer with this rank's rows.
  bool add(const RowPath& path, CollectiveKind kind, BufferId of_rank) {
    const auto* collective = uses_.instruction(path.collective).as<Collective>();
    if (collective->kind != kind || collective->axes.size() != 1 || !collective->members.empty()) return false;
    Shape leading = program_.buffer(of_rank).shape;
    if (leading.size() < 2) return false;
    leading.pop_back();
    if (group_.axis.empty()) {
      group_.axis = collective->axes[0];
      group_.leading = leading;
    }
    if (group_.axis != collective->axes[0] || group_.leading != leading) return false;
    group_.members.insert(path.collective);
    for (const auto& copy : {path.pack, path.unpack}) {
      if (copy) group_.members.insert(*copy);
    }
    // Such a copy deals the marks of each row to the ranks, so that it can be split along the rows.
    const auto deals_marks = [&](std::size_t at) {
      const auto* copy = uses_.instruction(at).as<Copy>();
      return copy->inner == 1 && copy->outer == element_count(leading);
    };
    const std::optional<std::size_t> kept = of_rank == uses_.first(path) ? path.pack : path.unpack;
    return !kept || deals_marks(*kept);
  }

  /// True if no instruction outside of the group reads what moves within it.
  [[nodiscard]] bool serves_the_group_alone() const {
    return std::ranges::all_of(group_.arriving, [this](const auto& each) {
      const RowPath& path = each.second;
      return is_read_within(each.first) && (!path.pack || is_read_within(uses_.instruction(*path.pack).outputs[0])) &&
             is_read_within(uses_.instruction(path.collective).outputs[0]);
    });
  }
  [[nodiscard]] bool is_read_within(BufferId buffer) const {
    const auto readers = uses_.readers(buffer);
    return readers &&
           std::ranges::all_of(*readers, [this](std::size_t reader) { return group_.members.contains(reader); });
  }

  const Program& program_;
  const RoutedRowUses& uses_;
  RoutedGroup group_;
};

/// Builds the parts of a group: gather 0, gather 1, ops 0, reduce 0, gather 2, ops 1, reduce 1, …
class GroupParts {
 public:
  GroupParts(ProgramBuilder& builder, const RoutedRowUses& uses, const RoutedGroup& group, int parts)
      : builder_(builder),
        uses_(uses),
        group_(group),
        parts_(parts),
        ranks_(builder.mesh().size(group.axis)),
        rows_(element_count(group.leading) / parts) {}

  std::vector<Instruction> build() {
    bring(0);
    for (int part = 0; part < parts_; ++part) {
      if (part + 1 < parts_) bring(part + 1);
      for (const RoutedOp& op : group_.ops) compute(op, part);
    }
    return std::move(made_);
  }

 private:
  /// By buffer of the whole, that of a part.
  using PartOf = std::map<BufferId, BufferId>;

  void bring(int part) {
    for (const auto& [operand, path] : group_.arriving) {
      BufferId from = view(uses_.first(path), part);
      if (path.pack) from = copy(*path.pack, from, new_buffer(output(*path.pack), part, ranks_));
      arrived_[part][operand] = collective(path, from, new_buffer(operand, part, ranks_), part);
    }
  }

  void compute(const RoutedOp& op, int part) {
    Instruction made = uses_.instruction(op.at);
    Compute& work = *made.as<Compute>();
    const Dims& dims = work.operand_dims[static_cast<std::size_t>(op.rows.marks)];
    for (BufferId& input : made.inputs) {
      const auto arrived = arrived_[part].find(input);
      if (arrived != arrived_[part].end()) input = arrived->second;
    }
    const Shape rows = leading(ranks_);
    for (ShardedDim& each : work.iteration) {
      const int at = find_dim(dims, each.dim);
      if (at < 0 || at + 1 == static_cast<int>(dims.size())) continue;
      each = {.dim = each.dim, .global_size = rows[static_cast<std::size_t>(at)], .axes = {}};
    }
    const std::vector<BufferId> wholes = made.outputs;
    if (op.rows.results.empty()) {
      work.accumulate = work.accumulate || part > 0;
    } else {
      for (BufferId& output : made.outputs) output = new_buffer(output, part, ranks_);
    }
    const std::vector<BufferId> outputs = made.outputs;
    made_.push_back(std::move(made));
    for (std::size_t i = 0; i < op.rows.results.size(); ++i) take_away(wholes[i], outputs[i], part);
  }

  void take_away(BufferId whole, BufferId from, int part) {
    const RowPath& path = group_.leaving.at(whole);
    const BufferId to = view(uses_.last(path), part);
    if (!path.unpack) {
      collective(path, from, to, part);
      return;
    }
    copy(*path.unpack, collective(path, from, new_buffer(output(path.collective), part, 1), part), to);
  }

  BufferId collective(const RowPath& path, BufferId from, BufferId to, int part) {
    Instruction made = uses_.instruction(path.collective);
    made.name += " part " + std::to_string(part) + " of " + std::to_string(parts_);
    made.as<Collective>()->id = builder_.communication_id(made.name);
    made.inputs = {from};
    made.outputs = {to};
    made_.push_back(std::move(made));
    return to;
  }

  BufferId copy(std::size_t at, BufferId from, BufferId to) {
    Instruction made = uses_.instruction(at);
    made.as<Copy>()->outer /= parts_;
    made.inputs = {from};
    made.outputs = {to};
    made_.push_back(std::move(made));
    return to;
  }

  [[nodiscard]] BufferId output(std::size_t at) const { return uses_.instruction(at).outputs[0]; }

  /// The leading dimensions of a part of `ranks` ranks. The order among the rows does not matter to the ops.
  [[nodiscard]] Shape leading(int ranks) const {
    Shape shape(group_.leading.size(), 1);
    shape.back() = rows_;
    shape.front() *= ranks;
    return shape;
  }

  /// A buffer for the rows of a part from `ranks` ranks. `whole` has the same last dimension, or a pack of it.
  BufferId new_buffer(BufferId whole, int part, int ranks) {
    const Buffer source = builder_.buffer(whole);
    Shape shape = leading(ranks);
    shape.push_back(source.elements() / parts_ / element_count(shape));
    return builder_.add_buffer(source.name + " part " + std::to_string(part), source.kind, source.dtype, source.dims,
                               shape);
  }

  BufferId view(BufferId whole, int part) {
    const auto [known, added] = views_.try_emplace({whole, part}, -1);
    if (!added) return known->second;
    const Buffer source = builder_.buffer(whole);
    const BufferId made = new_buffer(whole, part, 1);
    builder_.make_view(made, whole, source.elements() / parts_ * part);
    return known->second = made;
  }

  ProgramBuilder& builder_;
  const RoutedRowUses& uses_;
  const RoutedGroup& group_;
  int parts_;
  int ranks_;
  std::int64_t rows_;
  std::map<int, PartOf> arrived_;
  std::map<std::pair<BufferId, int>, BufferId> views_;
  std::vector<Instruction> made_;
};

void split(ProgramBuilder& builder, const OpRegistry& registry, const std::map<Axis, int>& chunks, Task& task) {
  const RoutedRowUses uses(builder.program(), task, registry);
  // By position, the instructions that take the place of the group's first op.
  std::map<std::size_t, std::vector<Instruction>> parts;
  std::set<std::size_t> replaced;
  for (const auto& [marks, ops] : uses.ops()) {
    const auto group = GroupFinder(builder.program(), uses).find(marks, ops);
    if (!group || !chunks.contains(group->axis)) continue;
    int count = chunks.at(group->axis);
    while (element_count(group->leading) % count != 0) --count;
    if (count == 1) continue;
    parts[group->ops.front().at] = GroupParts(builder, uses, *group, count).build();
    replaced.insert(group->members.begin(), group->members.end());
  }
  if (parts.empty()) return;
  std::vector<Instruction> result;
  for (std::size_t at = 0; at < task.instructions.size(); ++at) {
    const auto begins = parts.find(at);
    if (begins != parts.end()) {
      std::move(begins->second.begin(), begins->second.end(), std::back_inserter(result));
    } else if (!replaced.contains(at)) {
      result.push_back(std::move(task.instructions[at]));
    }
  }
  task.instructions = std::move(result);
}

}  // namespace

void split_routed_rows(ProgramBuilder& builder, const OpRegistry& registry, const std::map<Axis, int>& chunks) {
  if (chunks.empty()) return;
  for (Task& task : builder.program().tasks) split(builder, registry, chunks, task);
}

}  // namespace strata::host

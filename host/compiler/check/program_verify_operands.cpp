#include <algorithm>
#include <functional>

#include "compiler/check/communication_under_way.hpp"
#include "compiler/check/program_verify.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Ops that the host adds to a program, over flat buffers and scalars; no graph contains them.
struct ProgramOp {
  std::string_view name;
  std::size_t inputs;
  std::size_t outputs;
  /// Outputs have as many elements as the first input (any number where there is none); else they are scalars.
  bool elementwise;
  /// The first output is the values of parameters: where these are shorter than f32, a "master" copy follows it.
  bool updates = false;
};
constexpr ProgramOp kProgramOps[] = {
    {"fill_zero", 0, 1, true},       {"accumulate", 1, 1, true},         {"sum_of_squares", 1, 1, false},
    {"gradient_scale", 2, 2, false}, {"adamw_update", 2, 3, true, true}, {"sgd_update", 2, 2, true, true},
};

/// The rules for one instruction of one task template.
class OperandRules {
 public:
  OperandRules(const ProgramUnderCheck& check, const BufferRanges& ranges, int task, std::size_t index)
      : check_(check),
        program_(check.program),
        ranges_(ranges),
        at_{task, -1},
        index_(index),
        instruction_(program_.tasks[static_cast<std::size_t>(task)].instructions[index]) {}

  void run() const {
    switch (instruction_.kind) {
      case InstructionKind::load:
        operand_counts_are(0, 1);
        if (!instruction_.result_dims.empty())
          local_shapes_fit("output", instruction_.outputs, instruction_.result_dims);
        break;
      case InstructionKind::compute:
        if (instruction_.operand_dims.empty() && instruction_.result_dims.empty()) {
          program_op_fits();
          break;
        }
        local_shapes_fit("input", instruction_.inputs, instruction_.operand_dims);
        local_shapes_fit("output", instruction_.outputs, instruction_.result_dims);
        types_are_as_inferred();
        break;
      case InstructionKind::copy:
        operand_counts_are(1, 1);
        types_are_equal();
        copy_fits();
        break;
      case InstructionKind::collective:
        operand_counts_are(1, 1);
        types_are_equal();
        axes_exist();
        collective_sizes_fit();
        break;
      case InstructionKind::send:
      case InstructionKind::receive:
        operand_counts_are(instruction_.kind == InstructionKind::send ? 1 : 0,
                           instruction_.kind == InstructionKind::send ? 0 : 1);
        axes_exist();
        peer_is_another_rank();
        break;
      case InstructionKind::transfer:
        operand_counts_are(1, 1);
        types_are_equal();
        transfer_fits();
        break;
    }
    operands_are_on_the_device();
    accumulation_is_possible();
    workspace_is_scratch();
    outputs_are_apart();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { check_.fail(at_, index_, what); }
  [[nodiscard]] const Buffer& input() const { return program_.buffer(instruction_.inputs[0]); }
  [[nodiscard]] const Buffer& output() const { return program_.buffer(instruction_.outputs[0]); }
  [[nodiscard]] std::string name(BufferId id) const { return describe(program_, id); }
  [[nodiscard]] bool overlap(BufferId a, BufferId b) const { return ranges_.range(a, 0).overlaps(ranges_.range(b, 0)); }

  void operand_counts_are(std::size_t inputs, std::size_t outputs) const {
    if (instruction_.inputs.size() == inputs && instruction_.outputs.size() == outputs) return;
    fail("has " + std::to_string(instruction_.inputs.size()) + " inputs and " +
         std::to_string(instruction_.outputs.size()) + " outputs, not " + std::to_string(inputs) + " and " +
         std::to_string(outputs));
  }

  [[nodiscard]] std::int64_t local_size(const Dim& dim) const {
    const auto found = std::find_if(instruction_.iteration.begin(), instruction_.iteration.end(),
                                    [&](const ShardedDim& each) { return each.dim == dim; });
    if (found == instruction_.iteration.end()) fail("dimension '" + dim + "' is not among those that it iterates");
    std::int64_t pieces = 1;
    for (const AxisShard& shard : found->axes) pieces *= program_.mesh.size(shard.axis);
    if (found->global_size % pieces != 0) {
      fail("dimension '" + dim + "' of " + std::to_string(found->global_size) + " is dealt to " +
           std::to_string(pieces) + " ranks");
    }
    return found->global_size / pieces;
  }

  void program_op_fits() const {
    const auto* const op = std::find_if(std::begin(kProgramOps), std::end(kProgramOps),
                                        [this](const ProgramOp& each) { return each.name == instruction_.op; });
    if (op == std::end(kProgramOps)) {
      fail(check_.registry.has(instruction_.op) ? "names no dimensions" : "there is no such op");
    }
    const bool has_master =
        op->updates && !instruction_.outputs.empty() && size_of(output().dtype) < size_of(DType::f32);
    operand_counts_are(op->inputs, op->outputs + (has_master ? 1 : 0));
    if (has_master && program_.buffer(instruction_.outputs[1]).dtype != DType::f32) {
      fail("the master copy " + name(instruction_.outputs[1]) + " of values in " +
           std::string(to_string(output().dtype)) + " is not in f32");
    }
    for (const BufferId id : instruction_.outputs) {
      const std::int64_t expected = !op->elementwise ? 1 : op->inputs == 0 ? output().elements() : input().elements();
      const std::int64_t found = program_.buffer(id).elements();
      if (found == expected) continue;
      fail("output " + name(id) + " has " + std::to_string(found) + " elements, not " + std::to_string(expected));
    }
  }

  /// A flat buffer must have as many elements.
  void local_shapes_fit(const std::string& what, const std::vector<BufferId>& operands,
                        const std::vector<Dims>& dims) const {
    if (operands.size() != dims.size()) {
      fail("has " + std::to_string(operands.size()) + " " + what + "s and dimensions for " +
           std::to_string(dims.size()));
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Buffer& buffer = program_.buffer(operands[i]);
      Shape expected;
      for (const Dim& dim : dims[i]) expected.push_back(local_size(dim));
      const bool fits = is_flat(buffer) ? buffer.elements() == element_count(expected) : buffer.shape == expected;
      if (!fits) {
        fail(what + " " + name(operands[i]) + " has shape (" + print(buffer.shape) + "), its dimensions [" +
             join(dims[i]) + "] have (" + print(expected) + ") on a rank");
      }
    }
  }

  [[nodiscard]] static std::string print(const Shape& shape) {
    std::vector<std::string> words;
    for (const std::int64_t size : shape) words.push_back(std::to_string(size));
    return join(words);
  }

  /// Asks the op, as if the instruction were a node of a graph.
  void types_are_as_inferred() const {
    if (!check_.registry.has(instruction_.op)) fail("there is no such op");
    const auto flat = [this](BufferId id) { return is_flat(program_.buffer(id)); };
    if (std::any_of(instruction_.inputs.begin(), instruction_.inputs.end(), flat)) return;
    for (std::size_t i = 0; const TensorType& expected : inferred()) {
      if (i >= instruction_.outputs.size()) fail("lacks output " + std::to_string(i) + " of the op");
      const Buffer& buffer = program_.buffer(instruction_.outputs[i++]);
      const bool same_type = instruction_.accumulate || buffer.dtype == expected.dtype;
      if (same_type && (is_flat(buffer) || buffer.dims == expected.dims)) continue;
      fail("output " + name(buffer.id) + " is " + to_string(TensorType{buffer.dims, buffer.dtype}) + ", the op gives " +
           to_string(expected));
    }
  }

  [[nodiscard]] std::vector<TensorType> inferred() const {
    Graph graph;
    for (const ShardedDim& dim : instruction_.iteration) graph.sizes[dim.dim] = dim.global_size;
    Node node;
    node.op = instruction_.op;
    node.name = instruction_.name;
    node.attributes = instruction_.attributes;
    for (const BufferId id : instruction_.inputs) {
      const Buffer& buffer = program_.buffer(id);
      for (std::size_t i = 0; i < buffer.dims.size(); ++i) graph.sizes.try_emplace(buffer.dims[i], buffer.shape[i]);
      Node leaf;
      leaf.op = "input";
      leaf.name = buffer.name;
      leaf.results = {{buffer.dims, buffer.dtype}};
      node.operands.push_back({graph.append(std::move(leaf)), 0});
    }
    try {
      return check_.registry.get(instruction_.op).infer(graph, node);
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  void types_are_equal() const {
    if (input().dtype == output().dtype) return;
    fail("input " + name(input().id) + " is " + std::string(to_string(input().dtype)) + ", output " +
         name(output().id) + " is " + std::string(to_string(output().dtype)));
  }

  void copy_fits() const {
    const CopyDescription& copy = instruction_.copy;
    const std::int64_t whole = copy.outer * copy.size * copy.inner;
    const int pieces = program_.mesh.has(copy.axis.axis) ? program_.mesh.size(copy.axis.axis) : 0;
    if (pieces == 0 || copy.size % pieces != 0) {
      fail("deals " + std::to_string(copy.size) + " over axis '" + copy.axis.axis + "' of " + std::to_string(pieces) +
           " ranks");
    }
    const std::int64_t result = copy.kind == CopyDescription::Kind::slice ? whole / pieces : whole;
    if (input().elements() == whole && output().elements() == result) return;
    fail("copies " + std::to_string(whole) + " elements to " + std::to_string(result) + "; " + name(input().id) +
         " has " + std::to_string(input().elements()) + " and " + name(output().id) + " has " +
         std::to_string(output().elements()));
  }

  void axes_exist() const {
    const std::vector<Axis>& axes = instruction_.axes;
    if (axes.empty()) fail("names no mesh axis");
    for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
      if (!program_.mesh.has(*axis)) fail("the mesh has no axis '" + *axis + "'");
      if (std::find(axes.begin(), axis, *axis) != axis) fail("names axis '" + *axis + "' twice");
    }
  }

  void collective_sizes_fit() const {
    members_are_on_the_axis();
    const std::int64_t ranks = program_.group_size(instruction_);
    const std::int64_t in = input().elements();
    const std::int64_t out = output().elements();
    bool fits = in == out;
    switch (instruction_.collective) {
      case CollectiveKind::all_reduce:
        break;
      case CollectiveKind::reduce_scatter:
        fits = in == out * ranks;
        break;
      case CollectiveKind::all_gather:
        fits = out == in * ranks;
        break;
      case CollectiveKind::all_to_all:
        fits = in == out && in % ranks == 0;
        break;
      case CollectiveKind::broadcast:
        if (instruction_.peer < 0 || instruction_.peer >= ranks) {
          fail("root " + std::to_string(instruction_.peer) + " is not in a group of " + std::to_string(ranks));
        }
        break;
    }
    if (!fits) {
      fail("over " + std::to_string(ranks) + " ranks: input " + name(input().id) + " has " + std::to_string(in) +
           " elements, output " + name(output().id) + " has " + std::to_string(out));
    }
  }

  void members_are_on_the_axis() const {
    const std::vector<int>& members = instruction_.members;
    if (members.empty()) return;
    if (instruction_.axes.size() != 1) fail("members are chosen along one axis");
    const int ranks = program_.mesh.size(instruction_.axes[0]);
    const bool ascending = std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end();
    if (ascending && members.front() >= 0 && members.back() < ranks) return;
    fail("members of axis '" + instruction_.axes[0] + "' must ascend and lie below " + std::to_string(ranks));
  }

  void peer_is_another_rank() const {
    if (instruction_.axes.size() != 1) fail("a message goes along one axis");
    const int ranks = program_.mesh.size(instruction_.axes[0]);
    if (instruction_.relative_peer && around(0, instruction_.peer, ranks) != 0) return;
    if (!instruction_.relative_peer && instruction_.peer >= 0 && instruction_.peer < ranks) return;
    fail("peer " + std::to_string(instruction_.peer) + " is not on axis '" + instruction_.axes[0] + "' of " +
         std::to_string(ranks));
  }

  [[nodiscard]] static bool is_on_device(const Buffer& buffer) { return buffer.place == MemoryPlace::device; }

  void transfer_fits() const {
    if (input().elements() != output().elements()) {
      fail("moves " + std::to_string(input().elements()) + " elements of " + name(input().id) + " to " +
           std::to_string(output().elements()) + " of " + name(output().id));
    }
    if (is_on_device(input()) == is_on_device(output())) {
      fail("moves " + name(input().id) + " to " + name(output().id) +
           "; exactly one of them must be outside of device " + "memory");
    }
  }

  void operands_are_on_the_device() const {
    if (instruction_.kind == InstructionKind::transfer) return;
    for (const auto* operands : {&instruction_.inputs, &instruction_.outputs}) {
      for (const BufferId id : *operands) {
        if (is_on_device(program_.buffer(id))) continue;
        fail("uses " + name(id) + " in " + std::string(to_string(program_.buffer(id).place)) +
             " memory; only a transfer may");
      }
    }
  }

  void accumulation_is_possible() const {
    if (instruction_.accumulate && instruction_.kind != InstructionKind::compute) fail("only an op can accumulate");
  }

  void workspace_is_scratch() const {
    if (instruction_.workspace == -1) return;
    const Buffer& workspace = program_.buffer(instruction_.workspace);
    if (instruction_.kind != InstructionKind::compute) fail("only an op has a workspace");
    if (workspace.persistent || workspace.kind != BufferKind::workspace) {
      fail("workspace " + name(workspace.id) + " is a buffer of another kind");
    }
    for (const auto* operands : {&instruction_.inputs, &instruction_.outputs}) {
      for (const BufferId id : *operands) {
        if (overlap(id, workspace.id)) fail("workspace " + name(workspace.id) + " overlaps operand " + name(id));
      }
    }
  }

  void outputs_are_apart() const {
    const std::vector<BufferId>& outputs = instruction_.outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (overlap(outputs[i], outputs[j]))
          fail("outputs " + name(outputs[j]) + " and " + name(outputs[i]) + " overlap");
      }
      for (std::size_t j = 0; j < instruction_.inputs.size(); ++j) may_share(instruction_.inputs[j], j, outputs[i], i);
    }
  }

  /// An output overlaps an input only where the op works in place, and then exactly.
  void may_share(BufferId in, std::size_t operand, BufferId out, std::size_t result) const {
    const ByteRange read = ranges_.range(in, 0);
    const ByteRange written = ranges_.range(out, 0);
    if (!read.overlaps(written)) return;
    const bool same = read.begin == written.begin && read.end == written.end;
    if (same && can_work_in_place(static_cast<int>(operand), static_cast<int>(result))) return;
    fail("output " + name(out) + " overlaps input " + name(in) + ", which it may not replace in place");
  }

  [[nodiscard]] bool can_work_in_place(int operand, int result) const {
    if (instruction_.kind == InstructionKind::collective) {
      return instruction_.collective == CollectiveKind::all_reduce ||
             instruction_.collective == CollectiveKind::broadcast;
    }
    if (instruction_.kind != InstructionKind::compute || !check_.registry.has(instruction_.op)) return false;
    const std::vector<int> allowed = check_.registry.get(instruction_.op).in_place_operands(result);
    return std::find(allowed.begin(), allowed.end(), operand) != allowed.end();
  }

  const ProgramUnderCheck& check_;
  const Program& program_;
  const BufferRanges& ranges_;
  TaskInstance at_;
  std::size_t index_;
  const Instruction& instruction_;
};

}  // namespace

void verify_operands(const ProgramUnderCheck& check) {
  const BufferRanges ranges(check.program);
  for (std::size_t task = 0; task < check.program.tasks.size(); ++task) {
    for (std::size_t i = 0; i < check.program.tasks[task].instructions.size(); ++i) {
      OperandRules(check, ranges, static_cast<int>(task), i).run();
    }
  }
}

}  // namespace strata::host

#include <algorithm>
#include <functional>

#include "compiler/check/program_verify.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Checks the operands of one instruction of one task.
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
    std::visit([this](const auto& work) { check_work(work); }, instruction_.work);
    operands_are_on_the_device();
    outputs_are_apart();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { check_.fail(at_, index_, what); }
  [[nodiscard]] const Buffer& input() const { return program_.buffer(instruction_.inputs[0]); }
  [[nodiscard]] const Buffer& output() const { return program_.buffer(instruction_.outputs[0]); }
  [[nodiscard]] std::string name(BufferId id) const { return describe(program_, id); }
  [[nodiscard]] bool overlap(BufferId a, BufferId b) const { return ranges_.range(a, 0).overlaps(ranges_.range(b, 0)); }

  // --- one function per type of work

  void check_work(const LoadInput& load) const {
    Dims dims;
    for (const ShardedDim& dim : load.dims) dims.push_back(dim.dim);
    if (!dims.empty()) local_shapes_fit("output", instruction_.outputs, {dims}, load.dims);
  }

  void check_work(const Compute& compute) const {
    if (compute.operand_dims.empty() && compute.result_dims.empty()) {
      flat_op_fits(compute);
    } else {
      local_shapes_fit("input", instruction_.inputs, compute.operand_dims, compute.iteration);
      local_shapes_fit("output", instruction_.outputs, compute.result_dims, compute.iteration);
      types_are_as_inferred(compute);
    }
    workspace_is_scratch(compute);
    was_offered(compute);
  }

  void check_work(const Copy& copy) const {
    types_are_equal();
    copy_fits(copy);
  }

  void check_work(const Collective& collective) const {
    types_are_equal();
    axes_exist(collective.axes);
    collective_sizes_fit(collective);
    if (collective.marks != 0) marks_fit(collective);
  }

  void check_work(const Send& send) const { peer_is_another_rank(send.to); }

  void check_work(const Receive& receive) const { peer_is_another_rank(receive.from); }

  void check_work(const Transfer& /*transfer*/) const {
    types_are_equal();
    transfer_fits();
  }

  void operand_counts_are(std::size_t inputs, std::size_t outputs) const {
    if (instruction_.inputs.size() == inputs && instruction_.outputs.size() == outputs) return;
    fail("has " + std::to_string(instruction_.inputs.size()) + " inputs and " +
         std::to_string(instruction_.outputs.size()) + " outputs, not " + std::to_string(inputs) + " and " +
         std::to_string(outputs));
  }

  [[nodiscard]] std::int64_t local_size(const Dim& dim, const std::vector<ShardedDim>& iteration) const {
    const auto found = std::ranges::find(iteration, dim, &ShardedDim::dim);
    if (found == iteration.end()) fail("dimension '" + dim + "' is not among those that it iterates");
    std::int64_t pieces = 1;
    for (const AxisShard& shard : found->axes) pieces *= program_.mesh.size(shard.axis);
    if (found->global_size % pieces != 0) {
      fail("dimension '" + dim + "' of " + std::to_string(found->global_size) + " is dealt to " +
           std::to_string(pieces) + " ranks");
    }
    return found->global_size / pieces;
  }

  void flat_op_fits(const Compute& compute) const {
    if (!check_.registry.has(compute.op)) fail("there is no such op");
    const auto signature = check_.registry.get(compute.op).flat_signature(compute.attributes);
    if (!signature) fail("names no dimensions");
    const bool has_master =
        signature->is_update && !instruction_.outputs.empty() && size_of(output().dtype) < size_of(DType::f32);
    operand_counts_are(static_cast<std::size_t>(signature->inputs),
                       static_cast<std::size_t>(signature->outputs) + signature->states.size() + (has_master ? 1 : 0));
    if (has_master && program_.buffer(instruction_.outputs[1]).dtype != DType::f32) {
      fail("the master copy " + name(instruction_.outputs[1]) + " of values in " +
           std::string(to_string(output().dtype)) + " is not in f32");
    }
    if (signature->has_own_sizes) return;
    for (const BufferId id : instruction_.inputs) {
      const std::int64_t found = program_.buffer(id).elements();
      const bool is_scale = signature->inputs == 2 && id == instruction_.inputs[1] && found == 1 &&
                            program_.buffer(id).dtype == DType::f64;  // of a gradient that an op makes a direction of
      if (!signature->elementwise || signature->is_update || !signature->states.empty() || is_scale ||
          found == input().elements()) {
        continue;
      }
      fail("input " + name(id) + " has " + std::to_string(found) + " elements, not " +
           std::to_string(input().elements()));
    }
    for (const BufferId id : instruction_.outputs) {
      const std::int64_t expected = !signature->elementwise  ? 1
                                    : signature->inputs == 0 ? output().elements()
                                                             : input().elements();
      const std::int64_t found = program_.buffer(id).elements();
      if (found == expected) continue;
      fail("output " + name(id) + " has " + std::to_string(found) + " elements, not " + std::to_string(expected));
    }
  }

  /// Checks that operands have the local shapes of their dims. A flat buffer needs only the same number of elements.
  void local_shapes_fit(const std::string& what, const std::vector<BufferId>& operands, const std::vector<Dims>& dims,
                        const std::vector<ShardedDim>& iteration) const {
    if (operands.size() != dims.size()) {
      fail("has " + std::to_string(operands.size()) + " " + what + "s and dimensions for " +
           std::to_string(dims.size()));
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Buffer& buffer = program_.buffer(operands[i]);
      Shape expected;
      for (const Dim& dim : dims[i]) expected.push_back(local_size(dim, iteration));
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

  /// Checks the types by asking the op to infer them, as for a node of a graph.
  void types_are_as_inferred(const Compute& compute) const {
    if (!check_.registry.has(compute.op)) fail("there is no such op");
    const auto flat = [this](BufferId id) { return is_flat(program_.buffer(id)); };
    if (std::ranges::any_of(instruction_.inputs, flat)) return;
    for (std::size_t i = 0; const TensorType& expected : inferred(compute)) {
      if (i >= instruction_.outputs.size()) fail("lacks output " + std::to_string(i) + " of the op");
      const Buffer& buffer = program_.buffer(instruction_.outputs[i++]);
      const bool same_type = compute.accumulate || buffer.dtype == expected.dtype;
      if (same_type && (is_flat(buffer) || buffer.dims == expected.dims)) continue;
      fail("output " + name(buffer.id) + " is " + to_string(TensorType{buffer.dims, buffer.dtype}) + ", the op gives " +
           to_string(expected));
    }
  }

  [[nodiscard]] std::vector<TensorType> inferred(const Compute& compute) const {
    Graph graph;
    for (const ShardedDim& dim : compute.iteration) graph.sizes[dim.dim] = dim.global_size;
    Node node{.op = compute.op, .name = instruction_.name, .attributes = compute.attributes};
    for (const BufferId id : instruction_.inputs) {
      const Buffer& buffer = program_.buffer(id);
      for (std::size_t i = 0; i < buffer.dims.size(); ++i) graph.sizes.try_emplace(buffer.dims[i], buffer.shape[i]);
      const int leaf = graph.append({.op = "input", .name = buffer.name, .results = {{buffer.dims, buffer.dtype}}});
      node.operands.push_back({leaf, 0});
    }
    try {
      return check_.registry.get(compute.op).infer(graph, node);
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  void types_are_equal() const {
    if (input().dtype == output().dtype) return;
    fail("input " + name(input().id) + " is " + std::string(to_string(input().dtype)) + ", output " +
         name(output().id) + " is " + std::string(to_string(output().dtype)));
  }

  void copy_fits(const Copy& copy) const {
    const std::int64_t whole = copy.outer * copy.size * copy.inner;
    const int pieces = program_.mesh.has(copy.axis.axis) ? program_.mesh.size(copy.axis.axis) : 0;
    if (pieces == 0 || copy.size % pieces != 0) {
      fail("deals " + std::to_string(copy.size) + " over axis '" + copy.axis.axis + "' of " + std::to_string(pieces) +
           " ranks");
    }
    const std::int64_t result = copy.kind == Copy::Kind::slice ? whole / pieces : whole;
    if (input().elements() == whole && output().elements() == result) return;
    fail("copies " + std::to_string(whole) + " elements to " + std::to_string(result) + "; " + name(input().id) +
         " has " + std::to_string(input().elements()) + " and " + name(output().id) + " has " +
         std::to_string(output().elements()));
  }

  void axes_exist(const std::vector<Axis>& axes) const {
    if (axes.empty()) fail("names no mesh axis");
    for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
      if (!program_.mesh.has(*axis)) fail("the mesh has no axis '" + *axis + "'");
      if (std::find(axes.begin(), axis, *axis) != axis) fail("names axis '" + *axis + "' twice");
    }
  }

  void marks_fit(const Collective& collective) const {
    const bool gathers = collective.kind == CollectiveKind::all_gather;
    if (!gathers && collective.kind != CollectiveKind::reduce_scatter) fail("has marks of rows");
    const Buffer& sent = program_.buffer(instruction_.inputs[1]);
    const Buffer& received = program_.buffer(instruction_.inputs[2]);
    const std::int64_t row = collective.marks * program_.group_size(collective);
    const std::int64_t piece = (gathers ? input() : output()).elements();
    if (row > 0 && sent.dtype == received.dtype && sent.elements() == received.elements() &&
        sent.elements() % row == 0 && piece % (sent.elements() / row) == 0) {
      return;
    }
    fail("has " + std::to_string(collective.marks) + " marks per row in " + name(sent.id) + " of " +
         std::to_string(sent.elements()) + " and " + name(received.id) + " of " + std::to_string(received.elements()) +
         " elements, for pieces of " + std::to_string(piece));
  }

  void collective_sizes_fit(const Collective& collective) const {
    members_are_on_the_axis(collective);
    const std::int64_t ranks = program_.group_size(collective);
    const std::int64_t in = input().elements();
    const std::int64_t out = output().elements();
    bool fits = in == out;
    switch (collective.kind) {
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
        if (collective.root < 0 || collective.root >= ranks) {
          fail("root " + std::to_string(collective.root) + " is not in a group of " + std::to_string(ranks));
        }
        break;
    }
    if (!fits) {
      fail("over " + std::to_string(ranks) + " ranks: input " + name(input().id) + " has " + std::to_string(in) +
           " elements, output " + name(output().id) + " has " + std::to_string(out));
    }
  }

  void members_are_on_the_axis(const Collective& collective) const {
    const std::vector<int>& members = collective.members;
    if (members.empty()) return;
    if (collective.axes.size() != 1) fail("members are chosen along one axis");
    const int ranks = program_.mesh.size(collective.axes[0]);
    const bool ascending = std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end();
    if (ascending && members.front() >= 0 && members.back() < ranks) return;
    fail("members of axis '" + collective.axes[0] + "' must ascend and lie below " + std::to_string(ranks));
  }

  void peer_is_another_rank(const Peer& peer) const {
    axes_exist({peer.axis});
    const int ranks = program_.mesh.size(peer.axis);
    if (peer.is_relative && around(0, peer.coordinate, ranks) != 0) return;
    if (!peer.is_relative && peer.coordinate >= 0 && peer.coordinate < ranks) return;
    fail("peer " + std::to_string(peer.coordinate) + " is not on axis '" + peer.axis + "' of " + std::to_string(ranks));
  }

  [[nodiscard]] static bool is_on_device(const Buffer& buffer) { return buffer.place == MemoryPlace::device; }

  void transfer_fits() const {
    if (input().elements() != output().elements()) {
      fail("moves " + std::to_string(input().elements()) + " elements of " + name(input().id) + " to " +
           std::to_string(output().elements()) + " of " + name(output().id));
    }
    if (is_on_device(input()) == is_on_device(output())) {
      fail("moves " + name(input().id) + " to " + name(output().id) +
           "; exactly one of them must be outside of device memory");
    }
  }

  void operands_are_on_the_device() const {
    if (instruction_.is<Transfer>()) return;
    for (const auto* operands : {&instruction_.inputs, &instruction_.outputs}) {
      for (const BufferId id : *operands) {
        if (is_on_device(program_.buffer(id))) continue;
        fail("uses " + name(id) + " in " + std::string(to_string(program_.buffer(id).place)) +
             " memory; only a transfer may");
      }
    }
  }

  void workspace_is_scratch(const Compute& compute) const {
    if (compute.workspace == -1) return;
    const Buffer& workspace = program_.buffer(compute.workspace);
    if (workspace.persistent || workspace.kind != BufferKind::workspace) {
      fail("workspace " + name(workspace.id) + " is a buffer of another kind");
    }
    for (const auto* operands : {&instruction_.inputs, &instruction_.outputs}) {
      for (const BufferId id : *operands) {
        if (overlap(id, workspace.id)) fail("workspace " + name(workspace.id) + " overlaps operand " + name(id));
      }
    }
  }

  /// Detects an instruction that was added after the device had prepared the others.
  void was_offered(const Compute& compute) const {
    if (!check_.has_device) return;
    if (!compute.workspace_bytes) fail("was not offered to the device");
    const std::int64_t found = compute.workspace == -1 ? 0 : program_.buffer(compute.workspace).bytes();
    if (found >= *compute.workspace_bytes) return;
    fail("has a workspace of " + std::to_string(found) + " bytes; its kernel needs " +
         std::to_string(*compute.workspace_bytes));
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

  /// An output may overlap an input only if the op works in place, and then both must occupy exactly the same bytes.
  void may_share(BufferId input, std::size_t operand, BufferId output, std::size_t result) const {
    const ByteRange read = ranges_.range(input, 0);
    const ByteRange written = ranges_.range(output, 0);
    if (!read.overlaps(written)) return;
    const bool same = read.begin == written.begin && read.end == written.end;
    if (same && can_work_in_place(static_cast<int>(operand), static_cast<int>(result))) return;
    fail("output " + name(output) + " overlaps input " + name(input) + ", which it may not replace in place");
  }

  [[nodiscard]] bool can_work_in_place(int operand, int result) const {
    if (const auto* collective = instruction_.as<Collective>()) {
      return collective->kind == CollectiveKind::all_reduce || collective->kind == CollectiveKind::broadcast;
    }
    const auto* compute = instruction_.as<Compute>();
    if (compute == nullptr || !check_.registry.has(compute->op)) return false;
    const std::vector<int> allowed = check_.registry.get(compute->op).in_place_operands(result);
    return contains(allowed, operand);
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

#include "simulate/chakra_trace.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "compiler/program/communication_trace.hpp"
#include "files/json.hpp"
#include "files/protobuf_message.hpp"
#include "simulate/kernel_work.hpp"

namespace strata::host {
namespace {

// Fields and values of schema/protobuf/et_def.proto of github.com/mlcommons/chakra, of 2026 (commit 6dc63e14).

enum class NodeType : std::uint8_t { load = 2, compute = 4, send = 5, receive = 6, collective = 7 };

std::uint64_t collective_type(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 0;
    case CollectiveKind::all_gather:
      return 2;
    case CollectiveKind::broadcast:
      return 5;
    case CollectiveKind::all_to_all:
      return 6;
    case CollectiveKind::reduce_scatter:
      return 7;
  }
  return 0;
}

/// AttributeProto { string name = 1; int32 int32_val = 7; int64 int64_val = 9; uint64 uint64_val = 13; bool bool_val =
/// 27; string string_val = 29; }
enum class AttributeField : std::uint8_t { int32 = 7, int64 = 9, uint64 = 13, boolean = 27 };

ProtobufMessage attribute(std::string_view name, AttributeField field, std::uint64_t value) {
  return ProtobufMessage().bytes(1, name).number(static_cast<std::uint32_t>(field), value);
}

ProtobufMessage attribute(std::string_view name, std::string_view value) {
  constexpr std::uint32_t kString = 29;
  return ProtobufMessage().bytes(1, name).bytes(kString, value);
}

void append(std::string& file, const ProtobufMessage& message) {
  append_varint(file, message.text().size());
  file += message.text();
}

}  // namespace

/// Writes the nodes of one rank.
class ChakraRank {
 public:
  ChakraRank(ChakraTrace& trace, int rank)
      : trace_(trace),
        rank_(rank),
        program_(trace.compiled_.program(rank)),
        times_(trace.timed_.programs.at(
            static_cast<std::size_t>(trace.compiled_.class_of_rank.at(static_cast<std::size_t>(rank))))) {}

  std::string write() {
    append(file_, ProtobufMessage().bytes(1, "0.0.4"));  // GlobalMetadata { string version = 1; }
    for (const TaskInstance& at : program_.schedule) {
      const auto task = static_cast<std::size_t>(at.task);
      const std::vector<Instruction>& instructions = program_.tasks[task].instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        if (at.runs(instructions[i]) && instructions[i].when.holds(0)) {
          add(instructions[i], at.micro_batch, times_.tasks[task][i].seconds);
        }
      }
    }
    return std::move(file_);
  }

 private:
  using Instance = std::pair<BufferId, int>;

  /// A node without attributes: uint64 id = 1; string name = 2; NodeType type = 3; repeated uint64 ctrl_deps = 4,
  /// data_deps = 5; uint64 duration_micros = 7; repeated AttributeProto attr = 10.
  void add(const Instruction& instruction, int micro_batch, double seconds) {
    constexpr double kMicroseconds = 1e6;
    const bool is_computed = !is_asynchronous(instruction);
    const std::set<std::uint64_t> data = data_dependencies(instruction, micro_batch);
    ProtobufMessage node;
    node.number(1, next_).bytes(2, instruction.name);
    node.number(3, static_cast<std::uint64_t>(type_of(instruction)));
    if (last_computed_) node.number(4, *last_computed_);
    for (const std::uint64_t each : data) node.number(5, each);
    node.number(7, static_cast<std::uint64_t>(std::llround(seconds * kMicroseconds)));
    add_attributes(node, instruction, micro_batch);
    append(file_, node);
    if (is_computed) {
      last_computed_ = next_;
    } else {
      for (const auto& buffers : {instruction.inputs, instruction.outputs}) {
        for (const BufferId buffer : buffers) pending_[{program_.root(buffer), micro_batch}].insert(next_);
      }
    }
    ++next_;
  }

  [[nodiscard]] static NodeType type_of(const Instruction& instruction) {
    if (instruction.is<Collective>()) return NodeType::collective;
    if (instruction.is<Send>()) return NodeType::send;
    if (instruction.is<Receive>()) return NodeType::receive;
    if (instruction.is<LoadInput>()) return NodeType::load;
    return NodeType::compute;
  }

  /// The asynchronous nodes for which the instruction waits, and the one before in its group or channel.
  std::set<std::uint64_t> data_dependencies(const Instruction& instruction, int micro_batch) {
    std::set<std::uint64_t> nodes;
    for (const BufferId buffer : instruction.waits) take(nodes, buffer, micro_batch);
    for (const EarlierWait& wait : instruction.earlier_waits) take(nodes, wait.buffer, micro_batch - wait.distance);
    if (!is_communication(instruction)) return nodes;
    std::vector<int> key = ranks_of(counterparts_of(program_, instruction), program_.mesh, rank_);
    // Channels of two ranks are apart from groups, and a send is apart from a receive.
    if (const auto* send = instruction.as<Send>()) key = {-1, key.front(), send->channel};
    if (const auto* receive = instruction.as<Receive>()) key = {-2, key.front(), receive->channel};
    const auto [earlier, is_first] = last_of_.try_emplace(key, next_);
    if (!is_first) nodes.insert(std::exchange(earlier->second, next_));
    return nodes;
  }

  /// Takes the pending nodes that use a buffer. A persistent one has the same memory in all micro-batches.
  void take(std::set<std::uint64_t>& nodes, BufferId buffer, int micro_batch) {
    const BufferId root = program_.root(buffer);
    auto first = pending_.lower_bound({root, program_.buffer(root).persistent ? -1 : micro_batch});
    while (first != pending_.end() && first->first.first == root &&
           (program_.buffer(root).persistent || first->first.second == micro_batch)) {
      nodes.insert(first->second.begin(), first->second.end());
      first = pending_.erase(first);
    }
  }

  void add_attributes(ProtobufMessage& node, const Instruction& instruction, int micro_batch) {
    constexpr std::uint32_t kAttributes = 10;
    const auto put = [&](const ProtobufMessage& message) { node.bytes(kAttributes, message.text()); };
    put(attribute("is_cpu_op", AttributeField::boolean, 0));
    if (const auto* collective = instruction.as<Collective>()) {
      put(attribute("comm_type", AttributeField::int64, collective_type(collective->kind)));
      put(attribute("comm_size", AttributeField::int64, bytes_of(instruction)));
      put(attribute("pg_name",
                    trace_.group_name(ranks_of(counterparts_of(program_, instruction), program_.mesh, rank_))));
    } else if (is_communication(instruction)) {
      const int peer = ranks_of(counterparts_of(program_, instruction), program_.mesh, rank_).front();
      const bool sends = instruction.is<Send>();
      put(attribute("comm_size", AttributeField::int64, bytes_of(instruction)));
      put(attribute("comm_src", AttributeField::int32, static_cast<std::uint64_t>(sends ? rank_ : peer)));
      put(attribute("comm_dst", AttributeField::int32, static_cast<std::uint64_t>(sends ? peer : rank_)));
      put(attribute("comm_tag", AttributeField::int32, tag(instruction, micro_batch)));
    } else if (instruction.is<Compute>() || instruction.is<Copy>()) {
      const KernelWork work = kernel_work(trace_.registry_, program_, instruction);
      put(attribute("num_ops", AttributeField::int64, static_cast<std::uint64_t>(work.flops)));
      put(attribute("tensor_size", AttributeField::uint64, static_cast<std::uint64_t>(work.bytes)));
    } else {
      put(attribute("tensor_size", AttributeField::uint64, bytes_of(instruction)));
    }
  }

  /// Bytes of the larger of input and output.
  [[nodiscard]] std::uint64_t bytes_of(const Instruction& instruction) const {
    std::int64_t bytes = 0;
    for (const auto& buffers : {instruction.inputs, instruction.outputs}) {
      for (const BufferId buffer : buffers) bytes = std::max(bytes, program_.buffer(buffer).bytes());
    }
    return static_cast<std::uint64_t>(bytes);
  }

  /// The same number for both ends of a message, with 31 bits.
  [[nodiscard]] static std::uint64_t tag(const Instruction& instruction, int micro_batch) {
    constexpr std::uint64_t kSpread = 1000003;
    return (communication_id(instruction) * kSpread + static_cast<std::uint64_t>(micro_batch + 1)) & 0x7fffffffU;
  }

  ChakraTrace& trace_;
  int rank_;
  const Program& program_;
  const TimedProgram& times_;
  std::string file_;
  std::uint64_t next_ = 0;
  /// The node of the compute stream before.
  std::optional<std::uint64_t> last_computed_;
  /// Communication and transfers for which nobody has waited.
  std::map<Instance, std::set<std::uint64_t>> pending_;
  std::map<std::vector<int>, std::uint64_t> last_of_;
};

std::string ChakraTrace::of_rank(int rank) { return ChakraRank(*this, rank).write(); }

std::string ChakraTrace::group_name(const std::vector<int>& ranks) {
  return groups_.try_emplace(ranks, std::to_string(groups_.size())).first->second;
}

std::string ChakraTrace::groups() const {
  nlohmann::ordered_json names = nlohmann::ordered_json::object();
  for (const auto& [ranks, name] : groups_) names[name] = ranks;
  return json_text(names) + "\n";
}

}  // namespace strata::host

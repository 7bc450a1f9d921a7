#include "compiler/partition/alike_classes.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/partition/messages.hpp"
#include "compiler/placement/rule_filters.hpp"
#include "compiler/placement/stored_parameters.hpp"

namespace strata::host {
namespace {

/// Where a node reads an operand, as seen from its stage.
struct StageSource {
  enum class Kind : std::uint8_t {
    own,        ///< a node of the stage, by its place there
    received,   ///< a node of another stage, by its place among all that the stage receives
    parameter,  ///< by its place among those of the stage
    input       ///< by its id
  };
  Kind kind = Kind::own;
  int number = 0;
  int result = 0;
  /// Chunks from the reader to a node of another stage.
  int distance = 0;
  TensorType type;
  std::vector<bool> filters_at_rest = {};

  bool operator==(const StageSource&) const = default;
};

struct StageResult {
  TensorType type;
  std::vector<bool> filters_at_rest = {};
  /// Chunks from the node to each chunk of another stage that reads the result, and the kind of the first reader.
  std::map<int, Task::Kind> readers = {};
  /// Each sink: its kind, the place of the parameter whose gradient it is, and the name of another one.
  std::vector<std::tuple<Sink::Kind, int, std::string>> sinks = {};

  bool operator==(const StageResult&) const = default;
};

struct StageNode {
  std::string op;
  Attributes attributes;
  Phase phase = Phase::forward;
  /// Number of the chunk on the stage, and of the block in the chunk.
  int chunk = 0;
  int block = 0;
  std::vector<bool> filters = {};
  /// Place of the node that it recomputes.
  int recomputes = -1;
  std::vector<StageSource> sources = {};
  std::vector<StageResult> results = {};

  bool operator==(const StageNode&) const = default;
};

struct StageParameter {
  TensorType type;
  /// The kind of its bucket, without BucketKind::stages, which differ between alike stages.
  BucketKind kind;
  bool decay = true;
  std::int64_t norm_group = -1;
  /// Number of the block that reads it first. Of a parameter of several stages, its node instead.
  int block = 0;
  int shared = -1;

  bool operator==(const StageParameter&) const = default;
};

/// All that must be equal on stages whose programs are alike, and where the stage has it.
struct StageShape {
  std::vector<StageNode> nodes;
  std::vector<StageParameter> parameters;
  std::vector<int> chunks;
  std::vector<int> blocks;
  /// The values of other stages that it reads, in the order of the graph, and its own values that others read.
  std::vector<Value> received;
  std::vector<Value> sent;

  [[nodiscard]] bool is_like(const StageShape& other) const {
    return nodes == other.nodes && parameters == other.parameters && chunks.size() == other.chunks.size() &&
           blocks.size() == other.blocks.size() && received.size() == other.received.size() &&
           sent.size() == other.sent.size();
  }
};

class StageShapes {
 public:
  explicit StageShapes(const PlacedModel& model)
      : model_(model), stages_(model.stages), shapes_(static_cast<std::size_t>(stages_.count)) {
    number_chunks();
    std::vector<std::set<std::pair<std::size_t, int>>> received(shapes_.size());  // position in the graph, and result
    for (const Node& node : model.graph.nodes()) {
      if (node.is_leaf()) continue;
      place_[node.id] = node_counts_[stages_.stage(node)]++;
      for (const Value& operand : node.operands) {
        const Node& producer = model.graph.node(operand.node);
        if (producer.is_leaf() || stages_.stage(producer) == stages_.stage(node)) continue;
        received[static_cast<std::size_t>(stages_.stage(node))].insert(
            {model.index.position.at(operand.node), operand.result});
      }
    }
    for (std::size_t stage = 0; stage < shapes_.size(); ++stage) {
      for (const auto& [position, result] : received[stage]) {
        const Value value{model.graph.nodes()[position].id, result};
        received_[{static_cast<int>(stage), value}] = static_cast<int>(shapes_[stage].received.size());
        shapes_[stage].received.push_back(value);
      }
    }
    for (std::size_t i = 0; i < model.graph.parameters.size(); ++i) add_parameter(i);
    for (const Node& node : model.graph.nodes()) {
      if (!node.is_leaf()) add_node(node);
    }
  }

  [[nodiscard]] const StageShape& shape(int stage) const { return shapes_[static_cast<std::size_t>(stage)]; }

 private:
  void number_chunks() {
    for (int chunk = 0; chunk < static_cast<int>(stages_.stage_of_chunk.size()); ++chunk) {
      StageShape& shape = at(stages_.stage(chunk));
      chunk_number_.push_back(static_cast<int>(shape.chunks.size()));
      shape.chunks.push_back(chunk);
    }
    std::vector<int> counts(chunk_number_.size());
    for (int block = 0; block < model_.graph.block_count(); ++block) {
      const int chunk = stages_.chunk(block);
      at(stages_.stage(chunk)).blocks.push_back(block);
      block_number_.push_back(counts[static_cast<std::size_t>(chunk)]++);
    }
  }

  void add_parameter(std::size_t index) {
    const Parameter& parameter = model_.graph.parameters[index];
    const std::vector<GraphIndex::Use>& uses = model_.index.uses_of(parameter.value);
    StageParameter shape{
        .type = model_.graph.type(parameter.value), .kind = bucket_kind(model_, index), .decay = parameter.decay};
    const auto norm_group = model_.norm_groups.of_parameter.find(parameter.name);
    if (norm_group != model_.norm_groups.of_parameter.end()) shape.norm_group = norm_group->second;
    if (!uses.empty()) shape.block = block_number_[static_cast<std::size_t>(uses.front().node->block)];
    const std::vector<int> stages = std::exchange(shape.kind.stages, {});
    if (stages.size() > 1) shape.shared = parameter.value.node;
    for (const int stage : stages) {
      parameter_place_[{stage, parameter.name}] = static_cast<int>(at(stage).parameters.size());
      at(stage).parameters.push_back(shape);
    }
  }

  void add_node(const Node& node) {
    StageNode shape{.op = node.op,
                    .attributes = node.attributes,
                    .phase = node.phase,
                    .chunk = chunk_number_[static_cast<std::size_t>(stages_.chunk(node.block))],
                    .block = block_number_[static_cast<std::size_t>(node.block)],
                    .filters = filter_answers(model_.stack.rules, model_.registry(), model_.graph, node)};
    const auto recomputed = place_.find(node.recomputes);
    if (recomputed != place_.end()) shape.recomputes = recomputed->second;
    for (const Value& operand : node.operands) shape.sources.push_back(source(node, operand));
    for (int i = 0; i < static_cast<int>(node.results.size()); ++i) shape.results.push_back(result(node, i));
    at(stages_.stage(node)).nodes.push_back(std::move(shape));
  }

  [[nodiscard]] StageSource source(const Node& reader, const Value& operand) const {
    const Node& node = model_.graph.node(operand.node);
    const int stage = stages_.stage(reader);
    StageSource source{StageSource::Kind::input, node.id, operand.result, 0, model_.graph.type(operand),
                       filters_at_rest(operand)};
    if (node.is_parameter()) {
      source.kind = StageSource::Kind::parameter;
      source.number = parameter_place_.at({stage, node.name});
    } else if (!node.is_leaf() && stages_.stage(node) == stage) {
      source.kind = StageSource::Kind::own;
      source.number = place_.at(node.id);
    } else if (!node.is_leaf()) {
      source.kind = StageSource::Kind::received;
      source.number = received_.at({stage, operand});
      source.distance = stages_.chunk(node.block) - stages_.chunk(reader.block);
    }
    return source;
  }

  StageResult result(const Node& node, int number) {
    const Value value{node.id, number};
    const int stage = stages_.stage(node);
    StageResult shape{.type = node.results[static_cast<std::size_t>(number)],
                      .filters_at_rest = filters_at_rest(value)};
    for (const GraphIndex::Use& use : model_.index.uses_of(value)) {
      const int chunk = stages_.chunk(use.node->block);
      if (stages_.stage(chunk) == stage) continue;
      shape.readers.emplace(chunk - stages_.chunk(node.block), receiving_kind(model_, value, chunk));
    }
    if (!shape.readers.empty()) at(stage).sent.push_back(value);
    for (const Sink* sink : model_.index.sinks_of(value)) {
      const auto place = parameter_place_.find({stage, sink->name});
      const bool is_gradient = sink->kind == Sink::Kind::parameter_gradient && place != parameter_place_.end();
      shape.sinks.emplace_back(sink->kind, is_gradient ? place->second : -1, is_gradient ? "" : sink->name);
    }
    return shape;
  }

  [[nodiscard]] std::vector<bool> filters_at_rest(Value value) const {
    return filter_answers(model_.stack.rules, model_.graph, value);
  }

  StageShape& at(int stage) { return shapes_[static_cast<std::size_t>(stage)]; }

  const PlacedModel& model_;
  const Stages& stages_;
  std::vector<StageShape> shapes_;
  std::vector<int> chunk_number_;  // on its stage
  std::vector<int> block_number_;  // in its chunk
  std::map<int, int> node_counts_;
  std::map<int, int> place_;  // of a node on its stage
  std::map<std::pair<int, Value>, int> received_;
  std::map<std::pair<int, std::string>, int> parameter_place_;
};

/// Pairs the messages of a value that `here` and `there` read or send in the same way.
void pair_messages(const PlacedModel& model, const StageShape& there, const StageShape& here, AlikeClass& alike) {
  const Stages& stages = model.stages;
  const auto pair = [&](Value from, int from_chunk, Value to, int to_chunk, int peer) {
    const StageMessage message = stage_message(model, to, to_chunk);
    alike.messages[stage_message(model, from, from_chunk).id] = {{stages.axis, peer}, message.id, message.channel};
  };
  const auto chunk_of = [&](Value value) { return stages.chunk(model.graph.node(value.node).block); };
  for (std::size_t i = 0; i < here.sent.size(); ++i) {
    std::set<int> distances;
    for (const GraphIndex::Use& use : model.index.uses.at(here.sent[i])) {
      distances.insert(stages.chunk(use.node->block) - chunk_of(here.sent[i]));
    }
    for (const int distance : distances) {
      const int to_chunk = chunk_of(here.sent[i]) + distance;
      if (to_chunk == chunk_of(here.sent[i])) continue;
      pair(there.sent[i], chunk_of(there.sent[i]) + distance, here.sent[i], to_chunk, stages.stage(to_chunk));
    }
  }
  for (std::size_t i = 0; i < here.received.size(); ++i) {
    const Value value = here.received[i];
    for (std::size_t k = 0; k < here.chunks.size(); ++k) {
      const auto& uses = model.index.uses.at(value);
      const bool is_read = std::ranges::any_of(
          uses, [&](const GraphIndex::Use& use) { return stages.chunk(use.node->block) == here.chunks[k]; });
      if (is_read) pair(there.received[i], there.chunks[k], value, here.chunks[k], stages.stage(chunk_of(value)));
    }
  }
}

AlikeClass pair_up(const PlacedModel& model, int like, const StageShape& there, const StageShape& here) {
  AlikeClass alike{.like = like};
  for (std::size_t i = 0; i < here.chunks.size(); ++i) alike.chunks[there.chunks[i]] = here.chunks[i];
  for (std::size_t i = 0; i < here.blocks.size(); ++i) alike.blocks[there.blocks[i]] = here.blocks[i];
  pair_messages(model, there, here, alike);
  return alike;
}

}  // namespace

std::vector<AlikeClass> find_alike_classes(const PlacedModel& model) {
  const std::vector<RankClass>& classes = model.ranks.classes;
  std::vector<AlikeClass> found(classes.size());
  const StageShapes shapes(model);
  std::vector<int> different;
  for (int i = 0; i < static_cast<int>(classes.size()); ++i) {
    const RankClass& own = classes[static_cast<std::size_t>(i)];
    const auto like = std::ranges::find_if(different, [&](int other) {
      const RankClass& its = classes[static_cast<std::size_t>(other)];
      return its.updates == own.updates && shapes.shape(its.stage).is_like(shapes.shape(own.stage));
    });
    if (like == different.end()) {
      different.push_back(i);
    } else {
      const int stage = classes[static_cast<std::size_t>(*like)].stage;
      found[static_cast<std::size_t>(i)] = pair_up(model, *like, shapes.shape(stage), shapes.shape(own.stage));
    }
  }
  return found;
}

Program renumbered(const Program& program, const AlikeClass& alike) {
  Program copy = program;
  for (Task& task : copy.tasks) {
    if (task.kind != Task::Kind::prologue && task.kind != Task::Kind::epilogue)
      task.chunk = alike.chunks.at(task.chunk);
    for (Instruction& instruction : task.instructions) {
      const auto block = alike.blocks.find(instruction.block);
      if (block != alike.blocks.end()) instruction.block = block->second;
      if (!instruction.is<Send>() && !instruction.is<Receive>()) continue;
      const auto message = alike.messages.find(communication_id(instruction));
      if (message == alike.messages.end()) continue;
      const auto& [peer, id, channel] = message->second;
      if (auto* send = instruction.as<Send>()) *send = {peer, id, channel};
      if (auto* receive = instruction.as<Receive>()) *receive = {peer, id, channel};
    }
  }
  return copy;
}

}  // namespace strata::host

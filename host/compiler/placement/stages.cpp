#include "compiler/placement/stages.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/folded_mesh.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Checks that every block has a chunk, every chunk a stage, and every stage work.
void require_placement(const Placement& placement, const NamedStrategy& claimant, std::size_t blocks,
                       const Mesh& mesh) {
  const auto fail = [&](const std::string& what) { throw claimant.error("places blocks wrongly: " + what); };
  if (!mesh.has(placement.axis)) fail("the mesh has no axis '" + placement.axis + "'");
  const int chunks = static_cast<int>(placement.stage_of_chunk.size());
  if (placement.chunk_of_block.size() != blocks) {
    fail("it places " + std::to_string(placement.chunk_of_block.size()) + " blocks of " + std::to_string(blocks));
  }
  const int count = mesh.size(placement.axis);
  for (const int stage : placement.stage_of_chunk) {
    if (stage < 0 || stage >= count) fail("there is no stage " + std::to_string(stage));
  }
  std::set<int> used;
  for (const int chunk : placement.chunk_of_block) {
    if (chunk < 0 || chunk >= chunks) fail("there is no chunk " + std::to_string(chunk));
    used.insert(chunk);
  }
  if (static_cast<int>(used.size()) != chunks) fail("a chunk is empty");
  for (int stage = 0; stage < count; ++stage) {
    const auto& stages = placement.stage_of_chunk;
    if (!contains(stages, stage)) {
      fail("stage " + std::to_string(stage) + " has nothing to do");
    }
  }
}

/// Checks that every task occurs exactly once, and gradients after their forward tasks.
void require_schedule(const std::vector<ScheduledTask>& tasks, const Stages& stages, int stage, int micro_batches) {
  const auto fail = [&](const std::string& what) {
    throw stages.scheduler->error("schedules stage " + std::to_string(stage) + " wrongly: " + what);
  };
  std::map<std::pair<Phase, int>, std::vector<bool>> done;  // by phase and chunk, then by micro-batch
  std::size_t count = 0;
  for (const ScheduledTask& task : tasks) {
    const bool there = task.chunk >= 0 && task.chunk < static_cast<int>(stages.stage_of_chunk.size()) &&
                       stages.stage(task.chunk) == stage && task.micro_batch >= 0 && task.micro_batch < micro_batches &&
                       (task.phase != Phase::weight || stages.splits_weight_gradients);
    if (!there) fail("it has no " + to_string(task));
    const auto runs = [&](Phase phase) -> std::vector<bool>& {
      std::vector<bool>& all = done[{phase, task.chunk}];
      all.resize(static_cast<std::size_t>(micro_batches));
      return all;
    };
    const auto micro_batch = static_cast<std::size_t>(task.micro_batch);
    if (runs(task.phase)[micro_batch]) fail(to_string(task) + " comes twice");
    runs(task.phase)[micro_batch] = true;
    ++count;
    const Phase before = task.phase == Phase::weight ? Phase::backward : Phase::forward;
    if (task.phase != Phase::forward && !runs(before)[micro_batch]) {
      fail(to_string(task) + " comes before its " + std::string(to_string(before)));
    }
  }
  const auto chunks = std::ranges::count(stages.stage_of_chunk, stage);
  const std::size_t phases = stages.splits_weight_gradients ? 3 : 2;
  const std::size_t expected = phases * static_cast<std::size_t>(chunks) * static_cast<std::size_t>(micro_batches);
  if (count != expected) {
    fail("it has " + std::to_string(count) + " tasks of " + std::to_string(expected));
  }
}

[[noreturn]] void refuse(const std::string& what) { throw ConfigurationError(what); }

/// "8 x 16"
std::string describe(const Shape& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return join(sizes, " x ");
}

void require_values(const Graph& evaluation, const Graph& training) {
  for (const Parameter& parameter : evaluation.parameters) {
    const Parameter* trained = training.find_parameter(parameter.name);
    const std::string name = parameter.role == ParameterRole::constant ? "constant" : "parameter";
    if (trained == nullptr) {
      refuse("its evaluation graph has " + name + " '" + parameter.name +
             "', which its training graph lacks; ask for it in both");
    }
    const TensorType& found = evaluation.type(parameter.value);
    const TensorType& wanted = training.type(trained->value);
    if (found != wanted || evaluation.shape(parameter.value) != training.shape(trained->value)) {
      refuse("its evaluation graph has " + name + " '" + parameter.name + "' as " + to_string(found) + " of " +
             describe(evaluation.shape(parameter.value)) + ", its training graph as " + to_string(wanted) + " of " +
             describe(training.shape(trained->value)));
    }
  }
}

void require_blocks(const Graph& evaluation, const Graph& training) {
  if (evaluation.block_count() <= training.block_count()) return;
  refuse("its evaluation graph has " + std::to_string(evaluation.block_count()) + " blocks, its training graph " +
         std::to_string(training.block_count()) + "; accepted: at most as many");
}

/// A parameter lies on the stages that read it in the training step.
void require_homes(const Graph& evaluation, const Graph& training, const Stages& stages) {
  const auto readers = stages.readers(training);
  for (const Node& node : evaluation.nodes()) {
    for (const Value& operand : node.operands) {
      const Node& leaf = evaluation.node(operand.node);
      if (!leaf.is_parameter()) continue;
      const auto found = readers.find(training.find_parameter(leaf.name)->value);
      const std::set<int> homes = found == readers.end() ? std::set<int>{0} : found->second;
      if (homes.contains(stages.stage(node))) continue;
      refuse("its evaluation graph reads parameter '" + leaf.name + "' in block " + std::to_string(node.block) +
             ", on stage " + std::to_string(stages.stage(node)) + ", which its training graph does not");
    }
  }
}

}  // namespace

int Stages::chunk(int block) const {
  return chunk_of_block.empty() ? 0 : chunk_of_block.at(static_cast<std::size_t>(block));
}

std::map<Value, std::set<int>> Stages::readers(const Graph& graph) const {
  std::map<Value, std::set<int>> readers;
  for (const Node& node : graph.nodes()) {
    for (const Value& operand : node.operands) readers[operand].insert(stage(node));
  }
  return readers;
}

std::vector<ScheduledTask> Stages::schedule(int stage, int micro_batches, bool training) const {
  std::vector<ScheduledTask> tasks;
  if (!scheduler) {
    for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
      tasks.push_back({Phase::forward, micro_batch, 0});
      if (training) tasks.push_back({Phase::backward, micro_batch, 0});
    }
    return tasks;
  }
  tasks = scheduler->ask("schedule", [&](const Strategy& strategy) { return strategy.schedule(stage, micro_batches); });
  require_schedule(tasks, *this, stage, micro_batches);
  if (!training) std::erase_if(tasks, [](const ScheduledTask& task) { return task.phase != Phase::forward; });
  return tasks;
}

std::vector<BlockCost> block_costs(const Graph& graph, const OpRegistry& registry) {
  std::vector<BlockCost> costs(static_cast<std::size_t>(graph.block_count()));
  for (std::size_t i = 0; i < costs.size(); ++i) costs[i].block = static_cast<int>(i);
  std::map<Value, int> first_reader;
  for (const Node& node : graph.nodes()) {
    if (node.is_leaf()) continue;
    BlockCost& cost = costs.at(static_cast<std::size_t>(node.block));
    (node.phase == Phase::forward ? cost.forward_flops : cost.backward_flops) +=
        registry.get(node.op).cost(graph, node).flops;
    for (const Value& operand : node.operands) {
      if (node.phase == Phase::forward) first_reader.try_emplace(operand, node.block);
    }
  }
  for (const Parameter& parameter : graph.parameters) {
    const auto reader = first_reader.find(parameter.value);
    if (reader == first_reader.end()) continue;
    costs.at(static_cast<std::size_t>(reader->second)).parameter_bytes +=
        element_count(graph.shape(parameter.value)) *
        static_cast<std::int64_t>(size_of(graph.type(parameter.value).dtype));
  }
  return costs;
}

Stages place_blocks(const std::vector<BlockCost>& costs, const Mesh& mesh,
                    const std::vector<NamedStrategy>& strategies) {
  Stages stages;
  if (strategies.empty()) return stages;
  const auto claim = find_claim(strategies, "place", "the placement of blocks",
                                [&](const NamedStrategy& each) { return each.strategy->place(costs); });
  if (!claim) return stages;
  const Placement& placement = *claim->decision;
  require_placement(placement, *claim->claimant, costs.size(), mesh);
  stages.axis = placement.axis;
  stages.count = mesh.size(stages.axis);
  stages.chunk_of_block = placement.chunk_of_block;
  stages.stage_of_chunk = placement.stage_of_chunk;
  stages.splits_weight_gradients = placement.splits_weight_gradients;
  stages.scheduler = *claim->claimant;
  return stages;
}

RankClasses classify_ranks(const Mesh& mesh, const Stages& stages, const std::vector<PlacedParameter>& parameters) {
  const auto single =
      std::ranges::find_if(parameters, [](const PlacedParameter& each) { return each.storage.single_writer; });
  std::optional<AxisCoordinate> stage;
  std::optional<AxisCoordinate> writer;
  if (!stages.axis.empty()) stage.emplace(mesh, stages.axis);
  if (single != parameters.end()) writer.emplace(mesh, single->storage.axes.front());
  RankClasses classes;
  std::map<std::pair<int, bool>, int> numbers;
  for (int rank = 0; rank < mesh.rank_count(); ++rank) {
    const RankClass mine{stage ? (*stage)(rank) : 0, !writer || (*writer)(rank) == 0};
    const auto [number, added] =
        numbers.try_emplace({mine.stage, mine.updates}, static_cast<int>(classes.classes.size()));
    if (added) classes.classes.push_back(mine);
    classes.of_rank.push_back(number->second);
  }
  return classes;
}

void keep_values_between_chunks(Graph& graph, const Stages& stages) {
  std::vector<Node> nodes = graph.nodes();
  bool changed = false;
  for (Node& node : nodes) {
    for (Value& operand : node.operands) {
      const Node& producer = graph.node(operand.node);
      if (producer.recomputes < 0 || stages.chunk(producer.block) == stages.chunk(node.block)) continue;
      operand.node = producer.recomputes;
      changed = true;
    }
  }
  if (!changed) return;
  graph.replace_nodes(std::move(nodes));
  graph.remove_dead_nodes();
}

void require_shared_parameters(const Graph& evaluation, const Graph& training, const Stages& stages) {
  require_values(evaluation, training);
  require_blocks(evaluation, training);
  require_homes(evaluation, training, stages);
}

}  // namespace strata::host

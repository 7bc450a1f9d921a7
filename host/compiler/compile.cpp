#include "compiler/compile.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/check/program_check.hpp"
#include "compiler/graph/batch_statistic.hpp"
#include "compiler/graph/build_graph.hpp"
#include "compiler/memory/fullest_programs.hpp"
#include "compiler/order/order.hpp"
#include "compiler/parameters/step_end.hpp"
#include "compiler/parameters/trained_buckets.hpp"
#include "compiler/parameters/update.hpp"
#include "compiler/partition/alike_classes.hpp"
#include "compiler/partition/partition.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/placement/placed_model.hpp"
#include "compiler/placement/rule_filters.hpp"
#include "compiler/placement/storage.hpp"
#include "compiler/placement/stored_parameters.hpp"
#include "compiler/program/instructions.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/program/short_schedule.hpp"

namespace strata::host {
namespace {

BatchSplit batch_of(const CompileRequest& request, const Stack& stack) {
  return split_batch(request.global_batch, request.micro_batch, stack.replicas);
}

bool has_loss(const Graph& graph) {
  return std::ranges::any_of(graph.sinks, [](const Sink& sink) { return sink.kind == Sink::Kind::loss; });
}

// --- graph ─► placement

/// Ranks along the axis of the stages hold different layers.
void require_whole_stages(const Stack& stack, const Stages& stages) {
  if (stages.count == 1) return;
  for (const Rule& rule : stack.rules) {
    if (rule.axis != stages.axis) continue;
    throw stack.owner(rule.axis).error("places layers along mesh axis '" + rule.axis + "', but dimension '" + rule.dim +
                                       "' is mapped onto it; accepted: rules for other axes");
  }
}

/// Assigns blocks to stages, layouts by the rules, parameters to storage, and ranks to classes. An evaluation pass
/// takes all but the layouts from the training step. Adds to `found`.
PlacedModel place(const CompileRequest& request, const Stack& stack, Graph graph, const Compiled* training,
                  Findings& found) {
  PlacedModel model{.request = request, .stack = stack, .batch = batch_of(request, stack)};
  model.graph = std::move(graph);
  if (model.is_training()) {
    model.groups = assign_groups(model.graph, model.registry(), request.optimizer);
    model.norm_groups = index_norm_groups(model.graph, request.optimizer);
  }
  if (training != nullptr) {
    call_plugin(request.model_origin, "build",
                [&] { require_shared_parameters(model.graph, training->graph, training->stages); });
    model.stages = training->stages;
    model.ranks = {training->classes, training->class_of_rank};
  } else if (request.stages != nullptr) {
    model.stages = *request.stages;
  } else {
    model.stages = place_blocks(block_costs(model.graph, model.registry()), stack.mesh, stack.strategies);
  }
  require_whole_stages(stack, model.stages);
  keep_values_between_chunks(model.graph, model.stages);
  if (!request.is_trial) verify(model.graph, model.registry(), "placement");
  model.index = GraphIndex(model.graph);
  model.metrics = place_metrics(model.graph);
  model.rules = LayoutRules(stack.nesting(), model.graph.sizes, stack.rules);
  // Every rank of an axis holds such dimensions of parameters whole.
  for (const Parameter& parameter : model.graph.parameters) {
    static_cast<void>(model.rules.assign(rule_target(model.graph, parameter.value), {}, &found.undivided));
  }
  found.used_axes.insert(model.stages.axis);
  if (training != nullptr) return model;
  ResolvedStorage resolved = resolve_storage(model.graph, model.registry(), model.rules, stack);
  found.effective.merge(resolved.decided_by);
  model.parameters = std::move(resolved.parameters);
  model.ranks = classify_ranks(stack.mesh, model.stages, model.parameters);
  return model;
}

// --- placement ─► program of one class

std::string program_name(const CompileRequest& request) {
  if (request.is_training()) return "training step";
  if (!request.continuation) return "evaluation";
  if (request.continuation->reads_source) return "source";
  return request.continuation->fills_only ? "prompt" : "next token";
}

/// Assigns memory to the parameters of a class of ranks.
StoredParameters store_parameters(const PlacedModel& model, std::size_t number, const Compiled* training,
                                  ProgramBuilder& builder) {
  if (training == nullptr) return store_parameters(model, model.ranks.classes[number].stage, builder);
  const SharedBuckets& shared = training->buckets[number];
  const bool reads_averages = model.request.average_period > 0;
  return store_parameters_beside(model,
                                 {.parameters = training->programs[number].parameters,
                                  .dealt = shared.dealt,
                                  .averaged = reads_averages ? shared.averaged : std::vector<Bucket>{}},
                                 builder);
}

/// Emits the step's end, and orders all tasks. \return the trained buckets.
std::vector<TrainedBucket> end_step(const PlacedModel& model, const StoredParameters& parameters,
                                    const Accumulators& accumulators, const RankClass& rank_class,
                                    ProgramBuilder& builder) {
  std::vector<TrainedBucket> buckets;
  enter(model.request.times, "parameters");
  if (model.is_training()) {
    buckets = train_buckets(model, parameters, accumulators, rank_class, builder);
    emit_training_step_end(model, accumulators, buckets, rank_class, builder);
  } else if (has_loss(model.graph)) {
    emit_evaluation_end(model, accumulators, builder);
  }
  emit_averages_as_values(builder, parameters.averaged, rank_class, model.request.average_period);
  const int micro_batches = model.batch.micro_batches;
  enter(model.request.times, "order");
  order_tasks(builder.program(), model.stages.schedule(rank_class.stage, micro_batches, model.is_training()),
              micro_batches);
  if (model.is_training() && model.stack.buckets.overlap) complete_gradients_early(builder, buckets);
  return buckets;
}

/// A bucket of a training step, as an evaluation pass stores it. What the step gathers when it starts, the pass gathers
/// itself.
Bucket stored_bucket(Bucket bucket) {
  if (!bucket.gathers_for_step()) return bucket;
  bucket.storage.sharding = Sharding::values;
  bucket.storage.reshard_after_forward = false;
  bucket.gathered = -1;
  return bucket;
}

SharedBuckets shared_buckets(const PlacedModel& model, const std::vector<Bucket>& dealt,
                             const std::vector<TrainedBucket>& trained) {
  SharedBuckets shared;
  for (const Bucket& each : dealt) {
    if (!each.gathers_for_step()) shared.dealt.push_back(each);
  }
  for (const TrainedBucket& each : trained) {
    if (each.bucket.gathers_for_step()) shared.dealt.push_back(stored_bucket(each.bucket));
    if (model.keeps_average()) shared.averaged.push_back(stored_bucket(each.bucket));
  }
  return shared;
}

/// After the earlier phases only these passes add, remove or move instructions. \return the strategies that converted
/// collectives.
std::set<std::string> run_passes(const PlacedModel& model, ProgramBuilder& builder) {
  const Device* device = model.request.device;
  const OpRegistry& registry = model.registry();
  std::set<std::string> converted_by = convert_collectives(builder, model.stack.strategies);
  remove_unused_instructions(builder.program());
  if (device != nullptr) fuse_instructions(builder.program(), registry, *device);
  overlap_in_chunks(builder, registry, model.stack.chunks);
  split_routed_rows(builder, registry, model.stack.chunks);
  mark_routed_rows(builder.program(), registry);
  start_collectives_early(builder.program(), registry);
  reuse_operands_in_place(builder.program(), registry);
  if (device != nullptr) add_workspaces(builder, *device, model.request.device_origin);
  insert_waits(builder.program());
  return converted_by;
}

/// Without training, ranks along a self-reduced axis hold the same. Outputs are gathered from all ranks for the host.
void require_replicas_apart(const PlacedModel& model, const Program& program) {
  if (!model.is_training() && !model.request.outputs.empty()) return;
  const std::optional<ReplicaFault> fault =
      find_replica_fault(program, model.is_training() ? model.apart() : model.stack.unsynchronized);
  if (fault) throw model.stack.owner(fault->axis).error(fault->message);
}

/// The running average, or the value of the forward pass, that depends on the samples of all ranks. Empty if none does.
std::string name_of_statistic(const Graph& graph) {
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.role == ParameterRole::running_average) return parameter.name;
  }
  const Node* node = find_batch_statistic(graph);
  return node == nullptr ? "" : node->name;
}

/// A replica that is apart would take a part of the sums for the statistics of all samples.
void require_whole_statistics(const PlacedModel& model) {
  const std::string statistic = name_of_statistic(model.graph);
  if (statistic.empty()) return;
  for (const Axis& axis : model.apart()) {
    if (model.stack.mesh.size(axis) == 1) continue;
    throw model.stack.owner(axis).error("owns mesh axis '" + axis +
                                        "', along which ranks hold different values, but '" + statistic +
                                        "' follows statistics of the samples of all ranks; accepted: a model without "
                                        "running averages and means over the batch, such as those of batch norms");
  }
}

void require_repetition(const PlacedModel& model, const Program& program) {
  const int count = program.micro_batches;
  if (count <= kMostMicroBatchesAtOnce || superfluous_micro_batches({&program}) > 0) return;
  throw model.stages.scheduler->error("orders the work on " + std::to_string(count) +
                                      " micro-batches without rounds that repeat themselves; accepted: at most " +
                                      std::to_string(kMostMicroBatchesAtOnce) + ", with a larger batch.micro");
}

struct ClassProgram {
  Program program;
  SharedBuckets buckets;
  Findings found;
};

ClassProgram build_program(const PlacedModel& model, std::size_t number, const Compiled* training) {
  const RankClass& rank_class = model.ranks.classes[number];
  enter(model.request.times, "partition");
  ProgramBuilder builder(model.stack.mesh, program_name(model.request));
  const StoredParameters parameters = store_parameters(model, number, training, builder);
  PartitionResult partitioned = partition(model, parameters, rank_class.stage, builder);
  const std::vector<TrainedBucket> trained = end_step(model, parameters, partitioned.accumulators, rank_class, builder);
  require_repetition(model, builder.program());
  enter(model.request.times, "passes");
  partitioned.found.effective.merge(run_passes(model, builder));
  enter(model.request.times, "check of programs");
  if (!model.request.is_trial) {
    verify(builder.program(), model.registry(), "compilation", model.request.device != nullptr);
  }
  require_replicas_apart(model, builder.program());
  return {std::move(builder.program()), shared_buckets(model, parameters.dealt, trained), std::move(partitioned.found)};
}

// --- classes that are alike

/// The tasks in the order of their last runs, which completes gradients.
std::vector<int> last_runs(const Program& program) {
  std::vector<int> tasks;
  for (const TaskInstance& run : program.schedule) {
    if (run.is_last) tasks.push_back(run.task);
  }
  return tasks;
}

/// The program of a class. If it is like that of an earlier class, it is made from that one, unless its tasks end in
/// another order.
ClassProgram build_or_repeat_program(const PlacedModel& model, std::size_t number, const Compiled* training,
                                     AlikeClass& alike, const std::vector<ClassProgram>& earlier) {
  if (alike.like >= 0) {
    const ClassProgram& other = earlier[static_cast<std::size_t>(alike.like)];
    Program program = renumbered(other.program, alike);
    const int micro_batches = model.batch.micro_batches;
    const int stage = model.ranks.classes[number].stage;
    order_tasks(program, model.stages.schedule(stage, micro_batches, model.is_training()), micro_batches);
    if (last_runs(program) == last_runs(other.program)) return {std::move(program), other.buckets, {}};
    alike = {};
  }
  return build_program(model, number, training);
}

// --- programs ─► memory

/// What an evaluation pass shares with class `number` of the training step. It reads averages as values in memory of
/// its own.
SharedMemory shared_memory(const CompileRequest& request, const Compiled& training, std::size_t number) {
  const Program& program = training.programs[number];
  SharedMemory shared = shared_memory(program, training.plans[number]);
  if (request.average_period == 0) return shared;
  for (const Bucket& bucket : training.buckets[number].averaged) {
    for (const std::size_t index : bucket.parameters) shared.parameters.erase(program.parameters[index].name);
  }
  return shared;
}

/// Plans the memory of every class. Those that are alike have the memory of the fullest of them.
std::vector<MemoryPlan> plan_programs(const CompileRequest& request, const std::vector<Program>& programs,
                                      const std::vector<AlikeClass>& alike, const Compiled* training) {
  std::vector<MemoryPlan> plans(programs.size());
  std::map<std::size_t, std::vector<std::size_t>> groups;  // by the class that the others are like
  for (std::size_t i = 0; i < alike.size(); ++i) {
    groups[alike[i].like < 0 ? i : static_cast<std::size_t>(alike[i].like)].push_back(i);
  }
  for (const auto& [first, classes] : groups) {
    const MemoryPlan* most = nullptr;
    for (const std::size_t i : find_fullest(classes, programs)) {
      const SharedMemory shared = training != nullptr ? shared_memory(request, *training, i) : SharedMemory{};
      enter(request.times, "memory");
      plans[i] = plan_memory(programs[i], shared, request.packing);
      enter(request.times, "check of memory");
      if (!request.is_trial) verify_memory(programs[i], *request.registry, plans[i]);
      if (most == nullptr || plans[i].arena_bytes > most->arena_bytes) most = &plans[i];
    }
    for (const std::size_t i : classes) {
      if (&plans[i] != most) plans[i] = *most;
    }
  }
  return plans;
}

// --- notes

/// Says that a dimension stays whole although a rule maps it onto an axis.
std::string note_undivided(const PlacedModel& model, const Undivided& undivided) {
  const std::int64_t size = model.graph.sizes.at(undivided.dim);
  const std::int64_t next = (size / undivided.pieces + 1) * undivided.pieces;
  return model.stack.owner(undivided.axes.back()).name + ": dimension '" + undivided.dim + "' (" +
         std::to_string(size) + ") is not split over '" + undivided.axes.back() + "', because it is no multiple of " +
         std::to_string(undivided.pieces) +
         (undivided.axes.size() > 1 ? " (" + join(undivided.axes, " and ") + ")" : "") + "; " + std::to_string(next) +
         " is";
}

}  // namespace

bool Compiled::has_transfers() const {
  return std::ranges::any_of(programs, [](const Program& program) {
    return has_instruction(program, [](const Instruction& each) { return each.is<Transfer>(); });
  });
}

StepVariants step_variants(const Compiled& compiled) { return step_variants(compiled.programs); }

Stages find_stages(const CompileRequest& request, const RepeatedBlock& repeated) {
  const Stack stack = make_stack(request.strategies);
  const Graph graph = build_graph(request, batch_of(request, stack).samples).graph;
  std::vector<BlockCost> costs = block_costs(graph, *request.registry);
  costs.insert(costs.begin() + repeated.block, static_cast<std::size_t>(repeated.times - 1),
               costs.at(static_cast<std::size_t>(repeated.block)));
  for (std::size_t i = 0; i < costs.size(); ++i) costs[i].block = static_cast<int>(i);
  return place_blocks(costs, stack.mesh, stack.strategies);
}

Graph forward_graph(const CompileRequest& request) {
  return build_forward_graph(request, batch_of(request, make_stack(request.strategies)).samples);
}

Compiled compile(const CompileRequest& request, const Compiled* training) {
  enter(request.times, "graph");
  const Stack stack = make_stack(request.strategies);
  BuiltGraph built = build_graph(request, batch_of(request, stack).samples);
  Findings found{.effective = {built.rewritten_by.begin(), built.rewritten_by.end()}};
  enter(request.times, "placement");
  PlacedModel model = place(request, stack, std::move(built.graph), training, found);
  require_whole_statistics(model);
  std::vector<AlikeClass> alike(model.ranks.classes.size());
  if (request.is_trial && training == nullptr) alike = find_alike_classes(model);
  std::vector<ClassProgram> classes;
  for (std::size_t i = 0; i < alike.size(); ++i) {
    classes.push_back(build_or_repeat_program(model, i, training, alike[i], classes));
  }
  std::vector<int> repeats;
  for (const AlikeClass& each : alike) repeats.push_back(each.like);
  std::vector<Program> programs;
  std::vector<SharedBuckets> buckets;
  for (ClassProgram& each : classes) {
    programs.push_back(std::move(each.program));
    buckets.push_back(std::move(each.buckets));
    found.add(std::move(each.found));
  }
  enter(request.times, "passes");
  settle_messages(programs, model.ranks.of_rank);
  std::vector<MemoryPlan> plans = plan_programs(request, programs, alike, training);
  // The training step beside an evaluation pass has met the check. It may be alone in what an axis shards.
  if (training == nullptr) require_every_axis_used(stack, model.graph, found);
  for (const Undivided& each : found.undivided) found.notes.insert(note_undivided(model, each));
  return {.graph = std::move(model.graph),
          .mesh = stack.mesh,
          .stages = std::move(model.stages),
          .programs = std::move(programs),
          .plans = std::move(plans),
          .class_of_rank = std::move(model.ranks.of_rank),
          .classes = std::move(model.ranks.classes),
          .buckets = std::move(buckets),
          .repeats = std::move(repeats),
          .idle_strategies = idle_strategies(stack, found),
          .notes = std::move(found.notes),
          .groups = std::move(model.groups),
          .norm_groups = std::move(model.norm_groups),
          .metrics = std::move(model.metrics)};
}

}  // namespace strata::host

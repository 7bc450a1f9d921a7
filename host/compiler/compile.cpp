#include "compiler/compile.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/batch_split.hpp"
#include "compiler/check/program_check.hpp"
#include "compiler/check/replica_check.hpp"
#include "compiler/graph/build_graph.hpp"
#include "compiler/order/order.hpp"
#include "compiler/parameters/gradient_buckets.hpp"
#include "compiler/parameters/gradient_completion.hpp"
#include "compiler/parameters/optimizer_states.hpp"
#include "compiler/parameters/step_end.hpp"
#include "compiler/parameters/weight_average.hpp"
#include "compiler/partition/partition.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/placement/bucket_collectives.hpp"
#include "compiler/placement/kept_between_chunks.hpp"
#include "compiler/placement/shared_parameters.hpp"
#include "compiler/placement/storage.hpp"
#include "compiler/placement/stored_parameters.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/stack_options.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// State that all programs of one compilation share.
struct Compilation {
  const CompileRequest& request;
  Stack stack;
  std::int64_t samples = 1;  ///< samples of one micro-batch over all replicas
  int micro_batches = 1;
  GradientBuckets buckets = {};
  std::map<Axis, int> chunks = {};
  LayoutRules rules = {};
  std::vector<ParameterStorage> storage = {};
  std::vector<Fragments> fragments = {};
  std::vector<bool> own_buckets = {};
  /// Empty without training.
  AssignedGroups groups = {};
  /// Axes that shard something, and names of strategies that changed something. The phases fill both.
  std::set<Axis> used_axes = {};
  std::set<std::string> effective = {};
  /// What strategies could not do for ops.
  std::set<std::string> notes = {};

  [[nodiscard]] bool is_training() const { return request.mode == GraphMode::training; }
  [[nodiscard]] bool keeps_average() const {
    return is_training() && request.optimizer.average_decay > 0 && !request.optimizer.is_update_outside;
  }
  [[nodiscard]] const OpRegistry& registry() const { return *request.registry; }
};

Compilation begin(const CompileRequest& request) {
  Compilation compilation{request, make_stack(request.strategies)};
  const BatchSplit batch = split_batch(request.global_batch, request.micro_batch, compilation.stack.replicas);
  compilation.samples = batch.samples;
  compilation.micro_batches = batch.micro_batches;
  compilation.buckets = bucket_options(compilation.stack.strategies);
  compilation.chunks = chunk_counts(compilation.stack);
  return compilation;
}

GraphRequest graph_request(const Compilation& compilation) {
  const CompileRequest& request = compilation.request;
  return {*request.model,  request.model_origin, compilation.stack.strategies, *request.registry,
          request.mode,    request.float_type,   compilation.samples,          request.sizes,
          request.outputs, request.optimizer,    request.continuation};
}

Graph make_graph(Compilation& compilation) {
  BuiltGraph built = build_graph(graph_request(compilation));
  compilation.effective.insert(built.rewritten_by.begin(), built.rewritten_by.end());
  return std::move(built.graph);
}

bool has_loss(const Graph& graph) {
  return std::any_of(graph.sinks.begin(), graph.sinks.end(),
                     [](const Sink& sink) { return sink.kind == Sink::Kind::loss; });
}

/// Assigns parameters to storage, and ranks to classes.
void store(Compilation& compilation, Compiled& compiled) {
  const Stack& stack = compilation.stack;
  ResolvedStorage resolved = resolve_storage(compiled.graph, compilation.registry(), compilation.rules, stack);
  compilation.fragments = parameter_fragments(compiled.graph, compilation.registry(), stack.strategies);
  compilation.own_buckets = own_buckets(compiled.graph, compilation.registry(), stack.strategies);
  compilation.storage = std::move(resolved.storages);
  compilation.effective.merge(resolved.decided_by);
  RankClasses classes = classify_ranks(stack.mesh, compiled.stages, compilation.storage);
  compiled.classes = std::move(classes.classes);
  compiled.class_of_rank = std::move(classes.of_rank);
}

/// An evaluation pass takes storage and classes from the training step.
void store_beside(Compiled& compiled, const Compiled& beside) {
  compiled.classes = beside.classes;
  compiled.class_of_rank = beside.class_of_rank;
}

/// Notes a dimension that stays whole although a rule maps it onto an axis.
void note_undivided(Compilation& compilation, const Graph& graph, const Undivided& undivided) {
  const std::int64_t size = graph.sizes.at(undivided.dim);
  const std::int64_t next = (size / undivided.pieces + 1) * undivided.pieces;
  compilation.notes.insert(compilation.stack.owner(undivided.axes.back()).name + ": dimension '" + undivided.dim +
                           "' (" + std::to_string(size) + ") is not split over '" + undivided.axes.back() +
                           "', because it is no multiple of " + std::to_string(undivided.pieces) +
                           (undivided.axes.size() > 1 ? " (" + join(undivided.axes, " and ") + ")" : "") + "; " +
                           std::to_string(next) + " is");
}

/// Notes the dimensions of parameters that every rank of an axis holds whole.
void note_whole_parameters(Compilation& compilation, const Graph& graph) {
  std::set<Undivided> undivided;
  for (const Parameter& parameter : graph.parameters) {
    static_cast<void>(compilation.rules.assign({.op = {}, .dims = graph.type(parameter.value).dims}, {}, &undivided));
  }
  for (const Undivided& each : undivided) note_undivided(compilation, graph, each);
}

/// Assigns blocks to stages, layouts by the rules, and parameters to storage.
void place(Compilation& compilation, Compiled& compiled, const Compiled* beside) {
  const Stack& stack = compilation.stack;
  const OpRegistry& registry = compilation.registry();
  if (beside != nullptr) {
    call_plugin(compilation.request.model_origin, "build",
                [&] { require_shared_parameters(compiled.graph, beside->graph, beside->stages); });
  }
  compiled.stages =
      beside != nullptr ? beside->stages : place_blocks(compiled.graph, registry, stack.mesh, stack.strategies);
  keep_values_between_chunks(compiled.graph, compiled.stages);
  verify(compiled.graph, registry, "placement");
  compilation.rules = LayoutRules(stack.nesting(), compiled.graph.sizes, stack.rules);
  note_whole_parameters(compilation, compiled.graph);
  compilation.used_axes.insert(compiled.stages.axis);
  if (beside != nullptr) {
    store_beside(compiled, *beside);
  } else {
    store(compilation, compiled);
  }
}

/// Adds the optimizer states of a bucket, unless the caller updates the parameters.
std::vector<BufferId> add_states(const Compilation& compilation, ProgramBuilder& builder, const Bucket& bucket) {
  if (compilation.request.optimizer.is_update_outside) return {};
  // The parameters of a bucket have the same optimizer, hence the same states.
  const std::string& parameter = builder.program().parameters[bucket.parameters.front()].name;
  return add_optimizer_states(builder, bucket, compilation.groups.of(parameter).states);
}

/// Records that replicas along unsynchronized axes update the bucket's parameters apart.
void mark_unsynchronized(ProgramBuilder& builder, const Bucket& bucket, const AxisSet& unsynchronized) {
  for (const std::size_t index : bucket.parameters) {
    builder.program().parameters[index].unsynchronized = in_mesh_order(builder.mesh(), unsynchronized);
  }
}

/// The trained buckets with their gradient completion and optimizer states.
std::vector<TrainedBucket> train_buckets(const Compilation& compilation, ProgramBuilder& builder,
                                         const StoredParameters& parameters, const PartitionResult& partitioned,
                                         const RankClass& rank_class) {
  std::vector<TrainedBucket> trained;
  for (GradientBucket& each : make_gradient_buckets(builder, parameters, partitioned, compilation.buckets.bytes)) {
    TrainedBucket bucket;
    if (rank_class.updates) bucket.states = add_states(compilation, builder, each.bucket);
    mark_unsynchronized(builder, each.bucket, compilation.stack.unsynchronized);
    if (rank_class.updates && compilation.keeps_average()) bucket.average = add_average(builder, each.bucket);
    bucket.completion = plan_completion(builder, each, rank_class, compilation.buckets.overlap);
    bucket.bucket = std::move(each.bucket);
    bucket.gradients = std::move(each.gradients);
    trained.push_back(std::move(bucket));
  }
  return trained;
}

/// Assigns memory to the parameters of a class of ranks.
StoredParameters store_parameters(const Compilation& compilation, const Compiled& compiled, std::size_t class_number,
                                  const Compiled* beside, ProgramBuilder& builder) {
  if (beside != nullptr) {
    const std::vector<Bucket> averaged =
        compilation.request.average_period > 0 ? beside->averaged[class_number] : std::vector<Bucket>{};
    return store_parameters_beside({compiled.graph, compilation.rules, beside->programs[class_number].parameters,
                                    beside->dealt[class_number], averaged},
                                   builder);
  }
  return store_parameters(
      {compiled.graph, compilation.rules, compiled.stages, compilation.storage, compilation.groups,
       compilation.fragments, compilation.own_buckets, compiled.classes[class_number].stage, compilation.buckets.bytes},
      builder);
}

/// Emits the tasks and the step's end, and orders all tasks.
/// \return the trained buckets with a moving average.
std::vector<Bucket> build_instructions(Compilation& compilation, const Compiled& compiled, const RankClass& rank_class,
                                       const StoredParameters& parameters, ProgramBuilder& builder) {
  const bool training = compilation.is_training();
  const int stage = rank_class.stage;
  AxisSet apart;
  if (training) {
    apart = compilation.stack.unsynchronized;
    apart.insert(compilation.stack.reduced.begin(), compilation.stack.reduced.end());
  }
  PartitionResult partitioned =
      partition({compiled.graph, compilation.registry(), compilation.rules, compilation.stack.strategies,
                 compiled.stages, parameters, stage, training, apart},
                builder);
  std::vector<TrainedBucket> buckets;
  const bool overlap = training && compilation.buckets.overlap;
  if (training) {
    buckets = train_buckets(compilation, builder, parameters, partitioned, rank_class);
    emit_training_step_end(
        builder,
        {partitioned, buckets, compiled.stages, rank_class, overlap, compilation.stack.unsynchronized,
         compilation.stack.reduced,
         compiled.graph.loss_scaling.has_value() || compilation.request.optimizer.guard != StepGuard::none,
         &compiled.norm_groups},
        {compilation.request.optimizer, compilation.groups, compilation.registry(), compilation.stack});
  } else if (has_loss(compiled.graph)) {
    emit_evaluation_end(builder, partitioned, compiled.stages);
  }
  emit_averages_as_values(builder, parameters.averaged, rank_class, compilation.request.average_period);
  order_tasks(builder, compiled.stages.schedule(stage, compilation.micro_batches, training), compilation.micro_batches);
  if (overlap) complete_gradients_early(builder, buckets);
  compilation.used_axes.merge(partitioned.used_axes);
  compilation.effective.merge(partitioned.lowered_by);
  compilation.notes.merge(partitioned.notes);
  for (const Undivided& each : partitioned.undivided) note_undivided(compilation, compiled.graph, each);
  std::vector<Bucket> averaged;
  if (compilation.keeps_average()) {
    for (TrainedBucket& each : buckets) averaged.push_back(std::move(each.bucket));
  }
  return averaged;
}

/// After the earlier phases only these passes add, remove or move instructions.
void run_passes(Compilation& compilation, ProgramBuilder& builder) {
  const Device* device = compilation.request.device;
  const OpRegistry& registry = compilation.registry();
  compilation.effective.merge(convert_collectives(builder, compilation.stack.strategies));
  remove_unused_instructions(builder.program());
  if (device != nullptr) fuse_instructions(builder.program(), registry, *device);
  overlap_in_chunks(builder, registry, compilation.chunks);
  reuse_operands_in_place(builder.program(), registry);
  if (device != nullptr) add_workspaces(builder, *device, compilation.request.device_origin);
  insert_waits(builder.program());
}

/// Without training, ranks along a self-reduced axis hold the same. Outputs are gathered from all ranks for the host.
void require_replicas_apart(const Compilation& compilation, const Program& program) {
  const Stack& stack = compilation.stack;
  if (!compilation.is_training() && !compilation.request.outputs.empty()) return;
  AxisSet apart = stack.unsynchronized;
  if (compilation.is_training()) apart.insert(stack.reduced.begin(), stack.reduced.end());
  const std::optional<ReplicaFault> fault = find_replica_fault(program, apart);
  if (fault) throw stack.owner(fault->axis).error(fault->message);
}

std::string program_name(const CompileRequest& request) {
  if (request.mode == GraphMode::training) return "training step";
  if (!request.continuation) return "evaluation";
  return request.continuation->fills_only ? "prompt" : "next token";
}

Program build_program(Compilation& compilation, Compiled& compiled, std::size_t class_number, const Compiled* beside) {
  ProgramBuilder builder(compilation.stack.mesh, program_name(compilation.request));
  StoredParameters parameters = store_parameters(compilation, compiled, class_number, beside, builder);
  compiled.averaged.push_back(
      build_instructions(compilation, compiled, compiled.classes[class_number], parameters, builder));
  compiled.dealt.push_back(std::move(parameters.dealt));
  run_passes(compilation, builder);
  return std::move(builder.program());
}

/// What an evaluation pass shares with class `class_number` of the training step. It reads averages as values in memory
/// of its own.
SharedMemory shared_memory(const CompileRequest& request, const Compiled& training, std::size_t class_number) {
  const Program& program = training.programs[class_number];
  SharedMemory shared = shared_memory(program, training.plans[class_number]);
  if (request.average_period == 0) return shared;
  for (const Bucket& bucket : training.averaged[class_number]) {
    for (const std::size_t index : bucket.parameters) shared.parameters.erase(program.parameters[index].name);
  }
  return shared;
}

}  // namespace

bool Compiled::has_transfers() const {
  return std::any_of(programs.begin(), programs.end(), [](const Program& program) {
    return std::any_of(program.tasks.begin(), program.tasks.end(), [](const Task& task) {
      return std::any_of(task.instructions.begin(), task.instructions.end(),
                         [](const Instruction& each) { return each.is<Transfer>(); });
    });
  });
}

StepVariants step_variants(const Compiled& compiled) {
  std::vector<const Program*> programs;
  for (const Program& program : compiled.programs) programs.push_back(&program);
  return step_variants(programs);
}

Stages find_stages(const CompileRequest& request) {
  Compilation compilation = begin(request);
  const Graph graph = make_graph(compilation);
  return place_blocks(graph, *request.registry, compilation.stack.mesh, compilation.stack.strategies);
}

Graph forward_graph(const CompileRequest& request) { return build_forward_graph(graph_request(begin(request))); }

Compiled compile(const CompileRequest& request, const Compiled* beside) {
  Compilation compilation = begin(request);
  Compiled compiled;
  compiled.mesh = compilation.stack.mesh;
  compiled.graph = make_graph(compilation);
  if (compilation.is_training()) {
    compilation.groups = assign_groups(compiled.graph, *request.registry, request.optimizer);
    compiled.norm_groups = index_norm_groups(compiled.graph, request.optimizer);
  }
  place(compilation, compiled, beside);
  for (std::size_t i = 0; i < compiled.classes.size(); ++i) {
    compiled.programs.push_back(build_program(compilation, compiled, i, beside));
    verify(compiled.programs.back(), *request.registry, "compilation", request.device != nullptr);
    require_replicas_apart(compilation, compiled.programs.back());
  }
  if (std::any_of(compiled.programs.begin(), compiled.programs.end(), has_sends)) {
    release_sent_memory(compiled.programs, compiled.class_of_rank);
    merge_channels(compiled.programs, compiled.class_of_rank);
  }
  for (std::size_t i = 0; i < compiled.classes.size(); ++i) {
    const Program& program = compiled.programs[i];
    const SharedMemory shared = beside != nullptr ? shared_memory(request, *beside, i) : SharedMemory{};
    compiled.plans.push_back(plan_memory(program, shared));
    verify_memory(program, *request.registry, compiled.plans.back());
  }
  // The training step beside an evaluation pass has met the check. It may be alone in what an axis shards.
  if (beside == nullptr) require_every_axis_used(compilation.stack, compiled.graph, compilation.used_axes);
  compiled.groups = std::move(compilation.groups);
  compiled.notes = std::move(compilation.notes);
  compiled.idle_strategies = idle_strategies(compilation.stack, compilation.effective);
  return compiled;
}

}  // namespace strata::host

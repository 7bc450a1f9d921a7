#include "compiler/compile.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/check/program_check.hpp"
#include "compiler/order/schedule.hpp"
#include "compiler/parameters/buckets.hpp"
#include "compiler/parameters/gradient_completion.hpp"
#include "compiler/parameters/step_end.hpp"
#include "compiler/partition/partition.hpp"
#include "compiler/passes/chunked_overlap.hpp"
#include "compiler/passes/dead_code.hpp"
#include "compiler/passes/fuse.hpp"
#include "compiler/passes/in_place.hpp"
#include "compiler/passes/waits.hpp"
#include "compiler/placement/kept_between_chunks.hpp"
#include "compiler/placement/storage.hpp"
#include "compiler/program/op_instance.hpp"
#include "compiler/program/program_builder.hpp"
#include "reports/transfer_summary.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Ranks over which the batch is split: the product of the axes that shard "batch".
std::int64_t replica_count(const std::vector<Rule>& rules, const Mesh& mesh) {
  std::set<Axis> axes;
  for (const Rule& rule : rules) {
    if (rule.dim == "batch" && !rule.filter) axes.insert(rule.axis);
  }
  return mesh.size(std::vector<Axis>(axes.begin(), axes.end()));
}

/// Sinks that the program is for: named outputs, or the losses and their count.
void keep_sinks(Graph& graph, const std::vector<std::string>& outputs) {
  std::vector<Sink> kept;
  for (const Sink& sink : graph.sinks) {
    const bool named =
        sink.kind == Sink::Kind::output && std::find(outputs.begin(), outputs.end(), sink.name) != outputs.end();
    if (outputs.empty() ? sink.kind != Sink::Kind::output : named) kept.push_back(sink);
  }
  graph.sinks = std::move(kept);
  graph.remove_dead_nodes();
}

Graph build_graph(const CompileRequest& request, std::int64_t replicas) {
  const OpRegistry& registry = *request.registry;
  Graph graph;
  graph.sizes["batch"] = request.micro_batch * replicas;
  if (request.vocab) graph.sizes["vocab"] = *request.vocab;
  GraphBuilder builder(graph, registry, request.mode, request.float_type);
  request.model->build(builder);
  keep_sinks(graph, request.outputs);
  verify(graph, registry, "building the model");
  for (const NamedStrategy& each : request.strategies) {
    with_name(each, [&] { each.strategy->rewrite_forward(graph, registry); });
    verify(graph, registry, "the forward rewrite of " + each.name);
  }
  if (request.mode == GraphMode::training) {
    differentiate(graph, registry);
    verify(graph, registry, "differentiation");
    for (const NamedStrategy& each : request.strategies) {
      with_name(each, [&] { each.strategy->rewrite(graph, registry); });
      verify(graph, registry, "the rewrite of " + each.name);
    }
  }
  decompose(graph, registry);
  graph.remove_dead_nodes();
  verify(graph, registry, "decomposition");
  return graph;
}

/// Buckets of all trained parameters, with the optimizer's states where they are updated here.
std::vector<Bucket> make_buckets(ProgramBuilder& builder, PartitionResult& partitioned, const GradientBuckets& options,
                                 const OptimizerSettings& optimizer, const RankClass& rank_class) {
  std::vector<Bucket> buckets = std::move(partitioned.dealt);
  std::erase_if(buckets, [](const Bucket& bucket) { return bucket.gradients.empty(); });
  BucketMaker maker(builder, partitioned.members, options.bytes, static_cast<int>(buckets.size()));
  for (Bucket& bucket : maker.make_whole(partitioned.gradients)) buckets.push_back(std::move(bucket));
  for (Bucket& bucket : buckets) {
    if (rank_class.updates) maker.add_states(bucket, optimizer_states(optimizer));
    plan_completion(builder, bucket, rank_class, options.overlap);
  }
  return buckets;
}

GradientBuckets bucket_options(const std::vector<NamedStrategy>& strategies) {
  for (const NamedStrategy& each : strategies) {
    if (const auto options = each.strategy->gradient_buckets()) return *options;
  }
  return {};
}

/// What the programs of all classes of ranks are made from.
struct ProgramRequest {
  const CompileRequest& compile;
  const Compiled& compiled;
  const LayoutRules& rules;
  const std::vector<ParameterStorage>& storage;
  int micro_batches = 1;
};

bool has_loss(const Graph& graph) {
  return std::any_of(graph.sinks.begin(), graph.sinks.end(),
                     [](const Sink& sink) { return sink.kind == Sink::Kind::loss; });
}

/// \return the axes that the program uses.
std::set<Axis> build_program(const ProgramRequest& request, const RankClass& rank_class, Program& program) {
  const CompileRequest& compile = request.compile;
  const bool training = compile.mode == GraphMode::training;
  const GradientBuckets options = bucket_options(compile.strategies);
  ProgramBuilder builder(request.rules.mesh(), compile.strategies);
  PartitionResult partitioned =
      partition({request.compiled.graph, *compile.registry, request.rules, compile.strategies, request.compiled.stages,
                 request.storage, rank_class.stage, training, options.bytes},
                builder);
  std::vector<Bucket> buckets;
  const bool overlap = training && options.overlap;
  if (training) {
    buckets = make_buckets(builder, partitioned, options, compile.optimizer, rank_class);
    emit_training_step_end(builder, {partitioned, buckets, request.compiled.stages, rank_class, overlap},
                           compile.optimizer);
  } else {
    emit_evaluation_end(builder, {partitioned, buckets, request.compiled.stages, rank_class, false},
                        has_loss(request.compiled.graph));
  }
  remove_unused_instructions(builder.program());
  if (compile.device != nullptr) fuse_instructions(builder.program(), *compile.device);
  overlap_in_chunks(builder);
  reuse_operands_in_place(builder.program(), *compile.registry);
  if (compile.device != nullptr) add_workspaces(builder, *compile.device);
  schedule(builder, request.compiled.stages.schedule(rank_class.stage, request.micro_batches, training),
           request.micro_batches, buckets, overlap);
  insert_waits(builder.program());
  builder.program().name = training ? "training step" : "evaluation";
  program = std::move(builder.program());
  return std::move(partitioned.used_axes);
}

/// The classes of ranks and, by rank, which it is of.
std::pair<std::vector<RankClass>, std::vector<int>> rank_classes(const Mesh& mesh, const Stages& stages,
                                                                 const std::vector<ParameterStorage>& storage) {
  const auto single =
      std::find_if(storage.begin(), storage.end(), [](const ParameterStorage& each) { return each.single_writer; });
  std::vector<RankClass> classes;
  std::map<std::pair<int, bool>, int> numbers;
  std::vector<int> class_of_rank;
  for (int rank = 0; rank < mesh.rank_count(); ++rank) {
    const Coordinates at = mesh.coordinates(rank);
    const RankClass mine{stages.axis.empty() ? 0 : at.at(stages.axis),
                         single == storage.end() || at.at(single->axes.front()) == 0};
    const auto [number, added] = numbers.try_emplace({mine.stage, mine.updates}, static_cast<int>(classes.size()));
    if (added) classes.push_back(mine);
    class_of_rank.push_back(number->second);
  }
  return {std::move(classes), std::move(class_of_rank)};
}

/// "heads = 3, ffn = 48": the sizes that an axis does not divide, or not together with the other axes on them.
std::string sizes_of_mapped_dims(const LayoutRules& rules, const std::vector<Rule>& strategy_rules, const Axis& axis) {
  std::set<std::string> sizes;
  for (const Rule& rule : strategy_rules) {
    const auto size = rules.sizes().find(rule.dim);
    if (rule.axis == axis && size != rules.sizes().end()) sizes.insert(rule.dim + " = " + std::to_string(size->second));
  }
  return join({sizes.begin(), sizes.end()}, ", ");
}

void require_every_axis_used(const LayoutRules& rules, const std::vector<Rule>& strategy_rules,
                             const std::set<Axis>& used) {
  for (const MeshAxis& axis : rules.mesh().axes()) {
    if (axis.size == 1 || used.contains(axis.name)) continue;
    const std::string sizes = sizes_of_mapped_dims(rules, strategy_rules, axis.name);
    throw ConfigurationError("mesh axis '" + axis.name + "' of size " + std::to_string(axis.size) +
                             " shards nothing: " +
                             (sizes.empty() ? "the model has no dimension that its rules name"
                                            : "found " + sizes +
                                                  "; accepted: one that is a multiple of the sizes of all axes that "
                                                  "shard it, twice for zigzag"));
  }
}

}  // namespace

Mesh build_mesh(const std::vector<NamedStrategy>& strategies) {
  std::vector<MeshAxis> axes;
  std::map<Axis, std::string> adders;
  for (const NamedStrategy& each : strategies) {
    for (const MeshAxis& axis : each.strategy->axes()) {
      const auto [adder, added] = adders.try_emplace(axis.name, each.name);
      if (!added) {
        throw ConfigurationError(each.name + " and " + adder->second + " both add mesh axis '" + axis.name +
                                 "'; give each axis a name of its own");
      }
      axes.push_back(axis);
    }
  }
  return Mesh(std::move(axes));
}

std::vector<Rule> collect_rules(const std::vector<NamedStrategy>& strategies, const Mesh& mesh) {
  std::vector<Rule> rules;
  for (const NamedStrategy& each : strategies) {
    for (Rule& rule : each.strategy->rules()) {
      if (!mesh.has(rule.axis)) {
        throw ConfigurationError(each.name + " maps dimension '" + rule.dim + "' onto mesh axis '" + rule.axis +
                                 "', which no strategy adds");
      }
      rules.push_back(std::move(rule));
    }
  }
  return rules;
}

std::int64_t replica_count(const std::vector<NamedStrategy>& strategies) {
  const Mesh mesh = build_mesh(strategies);
  return replica_count(collect_rules(strategies, mesh), mesh);
}

Stages find_stages(const CompileRequest& request) {
  const Mesh mesh = build_mesh(request.strategies);
  const Graph graph = build_graph(request, replica_count(collect_rules(request.strategies, mesh), mesh));
  return place_blocks(graph, *request.registry, mesh, request.strategies);
}

bool Compiled::has_transfers() const {
  return std::any_of(programs.begin(), programs.end(),
                     [](const Program& program) { return !summarize_transfers(program).empty(); });
}

Compiled compile(const CompileRequest& request, const Compiled* beside) {
  Compiled compiled;
  compiled.mesh = build_mesh(request.strategies);
  const std::vector<Rule> strategy_rules = collect_rules(request.strategies, compiled.mesh);
  const std::int64_t replicas = replica_count(strategy_rules, compiled.mesh);
  const std::int64_t sequences = request.micro_batch * replicas;
  if (request.global_batch % sequences != 0) {
    throw ConfigurationError("a global batch of " + std::to_string(request.global_batch) +
                             " is no multiple of micro-batch " + std::to_string(request.micro_batch) + " times " +
                             std::to_string(replicas) + " replicas");
  }
  compiled.graph = build_graph(request, replicas);
  compiled.stages = beside != nullptr
                        ? beside->stages
                        : place_blocks(compiled.graph, *request.registry, compiled.mesh, request.strategies);
  keep_values_between_chunks(compiled.graph, compiled.stages);
  verify(compiled.graph, *request.registry, "placement");
  const LayoutRules rules(compiled.mesh, compiled.graph.sizes, strategy_rules);
  const std::vector<ParameterStorage> storage = resolve_storage(compiled.graph, rules, request.strategies);
  auto [classes, class_of_rank] = rank_classes(compiled.mesh, compiled.stages, storage);
  compiled.class_of_rank = std::move(class_of_rank);
  const ProgramRequest programs{request, compiled, rules, storage, static_cast<int>(request.global_batch / sequences)};
  std::set<Axis> used{compiled.stages.axis};
  for (std::size_t i = 0; i < classes.size(); ++i) {
    Program program;
    used.merge(build_program(programs, classes[i], program));
    verify(program, *request.registry, "compilation");
    compiled.plans.push_back(plan_memory(
        program, beside != nullptr ? shared_memory(beside->programs[i], beside->plans[i]) : SharedMemory{}));
    verify_memory(program, compiled.plans.back());
    compiled.programs.push_back(std::move(program));
  }
  require_every_axis_used(rules, strategy_rules, used);
  return compiled;
}

}  // namespace strata::host

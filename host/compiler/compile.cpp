#include "compiler/compile.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/buckets.hpp"
#include "compiler/fuse.hpp"
#include "compiler/in_place.hpp"
#include "compiler/op_instance.hpp"
#include "compiler/partition.hpp"
#include "compiler/program_builder.hpp"
#include "compiler/program_check.hpp"
#include "compiler/schedule.hpp"
#include "compiler/step_end.hpp"
#include "compiler/waits.hpp"
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
    each.strategy->rewrite_forward(graph, registry);
    verify(graph, registry, "the forward rewrite of " + each.name);
  }
  if (request.mode == GraphMode::training) {
    differentiate(graph, registry);
    verify(graph, registry, "differentiation");
    for (const NamedStrategy& each : request.strategies) {
      each.strategy->rewrite(graph, registry);
      verify(graph, registry, "the rewrite of " + each.name);
    }
  }
  decompose(graph, registry);
  graph.remove_dead_nodes();
  verify(graph, registry, "decomposition");
  return graph;
}

GradientBuckets bucket_options(const std::vector<NamedStrategy>& strategies) {
  for (const NamedStrategy& each : strategies) {
    if (const auto options = each.strategy->gradient_buckets()) return *options;
  }
  return {};
}

Program build_program(const CompileRequest& request, const Graph& graph, const LayoutRules& rules, int micro_batches) {
  ProgramBuilder builder(rules.mesh());
  const PartitionResult partitioned = partition(graph, *request.registry, rules, builder);
  std::vector<Bucket> buckets;
  bool overlap = false;
  if (request.mode == GraphMode::training) {
    const GradientBuckets options = bucket_options(request.strategies);
    overlap = options.overlap;
    buckets = make_buckets(builder, partitioned, options, optimizer_states(request.optimizer));
    emit_training_step_end(builder, partitioned, buckets, request.optimizer, overlap);
  } else {
    emit_evaluation_end(builder, partitioned);
  }
  if (request.device != nullptr) fuse_instructions(builder.program(), *request.device);
  reuse_operands_in_place(builder.program(), *request.registry);
  if (request.device != nullptr) add_workspaces(builder, *request.device);
  schedule(builder, micro_batches, buckets, overlap);
  insert_waits(builder.program());
  builder.program().name = request.mode == GraphMode::training ? "training step" : "evaluation";
  return std::move(builder.program());
}

}  // namespace

Mesh build_mesh(const std::vector<NamedStrategy>& strategies) {
  std::vector<MeshAxis> axes;
  for (const NamedStrategy& each : strategies) {
    for (const MeshAxis& axis : each.strategy->axes()) {
      const bool repeated =
          std::any_of(axes.begin(), axes.end(), [&](const MeshAxis& other) { return other.name == axis.name; });
      if (repeated) {
        throw ConfigurationError(each.name + " adds mesh axis '" + axis.name +
                                 "', which a strategy before it has added; give each an 'axis' of its own");
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

Compiled compile(const CompileRequest& request, const std::vector<SharedMemory>& shared) {
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
  const LayoutRules rules(compiled.mesh, compiled.graph.sizes, strategy_rules);
  compiled.programs.push_back(
      build_program(request, compiled.graph, rules, static_cast<int>(request.global_batch / sequences)));
  compiled.class_of_rank.assign(static_cast<std::size_t>(compiled.mesh.rank_count()), 0);
  for (std::size_t i = 0; i < compiled.programs.size(); ++i) {
    const Program& program = compiled.programs[i];
    verify(program, *request.registry, "compilation");
    compiled.plans.push_back(plan_memory(program, i < shared.size() ? shared[i] : SharedMemory{}));
    verify_memory(program, compiled.plans.back());
  }
  return compiled;
}

}  // namespace strata::host

#include "plan/plan_evaluation.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/graph/build_graph.hpp"
#include "compiler/optimizer_groups.hpp"
#include "simulate/described_device.hpp"
#include "simulate/short_step.hpp"
#include "simulate/stage_boundaries.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Two short models must have at most this share of the blocks of the whole one.
constexpr double kMostBlocks = 0.8;

/// From so many stages on, the round in which the pipeline fills is enough for an estimate: it has many micro-batches.
constexpr int kManyStages = 8;

/// Boundaries of stages are those of the strategy unless others save this share of a step.
constexpr double kLeastSaving = 0.002;

/// How the alike blocks are dealt to chunks, and how many may be left out of each chunk that has any.
class ShortStages {
 public:
  ShortStages(const Stages& stages, const AlikeBlocks& alike, int blocks)
      : stages_(stages), alike_(alike), blocks_(blocks), counts_(stages.stage_of_chunk.size()) {
    for (int block = alike.first; block < alike.first + alike.count; ++block) ++count(block);
  }

  /// The fewest alike blocks of a chunk that has any.
  [[nodiscard]] int fewest() const {
    int fewest = blocks_;
    for (const int count : counts_) {
      if (count > 0) fewest = std::min(fewest, count);
    }
    return fewest;
  }
  /// Blocks that the model lacks if each chunk lacks `each`.
  [[nodiscard]] int left_out(int each) const {
    return each * static_cast<int>(std::ranges::count_if(counts_, [](int count) { return count > 0; }));
  }
  /// The placement of a model whose chunks lack `each`.
  [[nodiscard]] Stages without(int each) const {
    Stages stages = stages_;
    if (stages.chunk_of_block.empty()) return stages;
    stages.chunk_of_block.clear();
    std::vector<int> left(counts_.size(), each);
    for (int block = 0; block < blocks_; ++block) {
      const int chunk = stages_.chunk(block);
      const bool is_alike = block >= alike_.first && block < alike_.first + alike_.count;
      if (is_alike && left[static_cast<std::size_t>(chunk)]-- > 0) continue;
      stages.chunk_of_block.push_back(chunk);
    }
    return stages;
  }

 private:
  int& count(int block) { return counts_.at(static_cast<std::size_t>(stages_.chunk(block))); }

  const Stages& stages_;
  const AlikeBlocks& alike_;
  int blocks_;
  std::vector<int> counts_;  // by chunk
};

/// True if every micro-batch reduces gradients to pieces: those of a block travel while the next one computes its own.
bool reduces_block_by_block(const CompileRequest& request, const Graph& graph) {
  const ParameterDescriptions describe(graph, *request.registry);
  return std::ranges::any_of(request.strategies, [&](const NamedStrategy& each) {
    return std::ranges::any_of(graph.parameters, [&](const Parameter& parameter) {
      const auto storage =
          each.ask("storage", [&](const Strategy& strategy) { return strategy.storage(describe(parameter)); });
      return storage && storage->sharding >= Sharding::gradients;
    });
  });
}

}  // namespace

std::shared_ptr<const BuiltModel> build_model(const CompileRequest& request, std::int64_t samples) {
  Graph graph = build_model_graph(request, request.mode, samples);
  const AlikeBlocks alike = find_alike_blocks(graph, *request.registry, make_stack(request.strategies).rules);
  return std::make_shared<BuiltModel>(BuiltModel{std::move(graph), alike});
}

std::shared_ptr<const BuiltModel> PlanEvaluator::built_model(const CompileRequest& request) const {
  const std::int64_t samples = request.micro_batch * make_stack(request.strategies).replicas;
  {
    const std::lock_guard lock(mutex_);
    const auto found = built_.find(samples);
    if (found != built_.end()) return found->second;
  }
  std::shared_ptr<const BuiltModel> built = build_model(request, samples);
  const std::lock_guard lock(mutex_);
  return built_.emplace(samples, std::move(built)).first->second;
}

StepPrediction PlanEvaluator::estimate(CompileRequest request, int stages) const {
  const bool has_stages = stages > 1;
  const std::shared_ptr<const BuiltModel> built = built_model(request);
  const auto predict = [&](int left_out, const Stages* placed) {
    request.model = std::make_shared<ShortModel>(built, left_out);
    request.stages = placed;
    const int rounds = stages < kManyStages ? 2 : 1;
    return simulate_short_step(request, cluster_, stages, {.planned = rounds, .timed = rounds});
  };
  const AlikeBlocks& alike = built->alike;
  if (alike.count < 2) return predict(0, nullptr);
  const Stages whole = has_stages ? stages_of(request, built) : Stages{};
  const int blocks = built->graph.block_count();
  const ShortStages short_stages(whole, alike, blocks);
  // What grows with each further block begins at the second one if two of them are alive at a time.
  const int one = short_stages.fewest() - (reduces_block_by_block(request, built->graph) ? 2 : 1);
  const int two = one - 1;
  const int both = 2 * blocks - short_stages.left_out(one) - short_stages.left_out(two);
  if (two < 1 || both > kMostBlocks * blocks) return predict(0, has_stages ? &whole : nullptr);
  const auto predict_short = [&](int each) {
    const Stages placed = short_stages.without(each);
    return predict(short_stages.left_out(each), has_stages ? &placed : nullptr);
  };
  const StepPrediction less = predict_short(one);
  // The whole model needs more.
  if (less.peak_bytes > request.device->memory_bytes()) return less;
  return extrapolate(less, predict_short(two), two);
}

Stages PlanEvaluator::stages_of(CompileRequest request, const std::shared_ptr<const BuiltModel>& built) const {
  const AlikeBlocks& alike = built->alike;
  request.model = std::make_shared<ShortModel>(built, alike.count - 2);
  return find_stages(request, {alike.first, alike.count - 1});
}

PlanEvaluator::BlockWork PlanEvaluator::block_work(const PlanChoice& choice, CompileRequest request,
                                                   const std::shared_ptr<const BuiltModel>& built) const {
  PlanChoice key = choice;
  key.parts[PlanPurpose::stages] = -space_.stages(choice);
  {
    const std::lock_guard lock(mutex_);
    const auto found = work_.find(key);
    if (found != work_.end()) return found->second;
  }
  const auto work_on = [&](int blocks) {
    request.model = std::make_shared<ShortModel>(built, built->alike.count - blocks);
    return rank_work(compile(request), *request.registry, cluster_);
  };
  BlockWork work{work_on(1), work_on(2)};
  const std::lock_guard lock(mutex_);
  return work_.emplace(std::move(key), std::move(work)).first->second;
}

template <class Call>
void PlanEvaluator::with_request(const PlanChoice& choice, const Call& call) const {
  const RunSetup setup = [&] {
    const std::lock_guard lock(mutex_);
    return space_.prepare_trial(choice, registry_);
  }();
  const std::unique_ptr<Device> device = described_device(cluster_, setup.stack.mesh.rank_count(), *setup.ops);
  CompileRequest request = setup.request(GraphMode::training, setup.sizes(space_.data()));
  request.device = device.get();
  request.is_trial = true;
  call(request);
}

template <class Predict>
EvaluatedPlan PlanEvaluator::evaluate(const PlanChoice& choice, const Predict& predict) const {
  EvaluatedPlan plan;
  plan.choice = choice;
  try {
    with_request(choice, [&](CompileRequest& request) {
      plan.prediction = predict(request);
      plan.excess_bytes = plan.prediction->excess_bytes(*request.device, cluster_);
    });
  } catch (const Error& error) {
    plan.refusal = error.what();
  }
  return plan;
}

PlanBounds PlanEvaluator::bounds(const PlanChoice& choice) const {
  PlanBounds bounds;
  const int stages = space_.stages(choice);
  if (stages == 1 || cluster_.groups.size() > 1) return bounds;
  try {
    with_request(choice, [&](CompileRequest& request) {
      const std::shared_ptr<const BuiltModel> built = built_model(request);
      if (built->alike.count < 2) return;
      const DealtBlocks blocks(stages_of(request, built), built->alike);
      const std::int64_t samples = request.micro_batch * make_stack(request.strategies).replicas;
      const auto micro_batches = static_cast<int>(request.global_batch / samples);
      const int table = PlanSpace::table(choice, PlanPurpose::stages);
      std::erase_if(request.strategies, [&](const NamedStrategy& each) { return each.table == table; });
      request.global_batch = std::min(micro_batches, 2) * samples;
      request.packing = PackingEffort::none;
      const auto [one, two] = block_work(choice, request, built);
      bounds = plan_bounds(one, two, blocks, micro_batches);
    });
  } catch (const Error&) {
    // The estimate says why the plan cannot exist.
  }
  return bounds;
}

EvaluatedPlan PlanEvaluator::evaluate(const PlanChoice& choice) const {
  return evaluate(choice, [&](CompileRequest& request) {
    request.packing = PackingEffort::quick;
    return simulate_short_step(request, cluster_, space_.stages(choice));
  });
}

EvaluatedPlan PlanEvaluator::balance(const EvaluatedPlan& plan) const {
  if (!plan.works() || space_.chunk_blocks_option(plan.choice) == nullptr) return plan;
  EvaluatedPlan balanced = plan;
  with_request(plan.choice, [&](CompileRequest& request) {
    request.packing = PackingEffort::quick;
    BoundarySearch boundaries(request, cluster_, block_seconds(request, cluster_));
    SimulatedSplit best = boundaries.best();
    if (best.excess_bytes > 0 || best.step.seconds > (1 - kLeastSaving) * plan.prediction->seconds) return;
    balanced.choice.chunk_blocks = std::move(best.blocks);
    balanced.prediction = std::move(best.step);
  });
  return balanced;
}

EvaluatedPlan PlanEvaluator::estimate(const PlanChoice& choice) const {
  return evaluate(choice, [&](CompileRequest& request) {
    request.packing = PackingEffort::none;
    return estimate(request, space_.stages(choice));
  });
}

}  // namespace strata::host

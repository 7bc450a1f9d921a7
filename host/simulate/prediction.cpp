#include "simulate/prediction.hpp"

#include <algorithm>
#include <utility>

#include "compiler/program/step_variants.hpp"
#include "reports/program_summary.hpp"
#include "simulate/kernel_cost.hpp"
#include "simulate/simulation.hpp"

namespace strata::host {
namespace {

/// Number of ranks of each class.
std::vector<double> rank_counts(const Compiled& compiled) {
  std::vector<double> counts(compiled.programs.size());
  for (const int number : compiled.class_of_rank) ++counts[static_cast<std::size_t>(number)];
  return counts;
}

/// Adds the share of an average rank. `weight`: the class's share of the ranks, times the variant's of the steps.
void add(StepPrediction& prediction, const SimulatedRank& rank, double weight) {
  TimeShares& shares = prediction.shares;
  const auto busy = [&](WorkKind kind) { return weight * rank.busy[static_cast<std::size_t>(kind)]; };
  shares.products += busy(WorkKind::product);
  shares.attention += busy(WorkKind::attention);
  shares.memory += busy(WorkKind::memory);
  shares.launch += weight * rank.launch;
  shares.transfer += weight * rank.transfer;
  shares.idle += weight * rank.idle;
  for (const auto& [axes, seconds] : rank.exposed) {
    shares.exposed += weight * seconds;
    prediction.exposed_seconds[axes] += weight * seconds;
  }
}

void note_memory(StepPrediction& prediction, const Compiled& compiled) {
  prediction.ranks = compiled.mesh.rank_count();
  prediction.stage_bytes.resize(static_cast<std::size_t>(compiled.stages.count));
  for (std::size_t i = 0; i < compiled.plans.size(); ++i) {
    const MemoryPlan& plan = compiled.plans[i];
    std::int64_t& of_stage = prediction.stage_bytes[static_cast<std::size_t>(compiled.classes[i].stage)];
    of_stage = std::max(of_stage, plan.arena_bytes);
    prediction.offloaded_bytes = std::max(prediction.offloaded_bytes, plan.offload.host);
    if (plan.arena_bytes <= prediction.peak_bytes) continue;
    prediction.peak_bytes = plan.arena_bytes;
    prediction.bytes_at_peak = plan.bytes_at_peak;
  }
}

/// What the devices of all ranks can compute in a second.
double all_peaks(const Compiled& compiled, const Cluster& cluster, DType type) {
  const int ranks = compiled.mesh.rank_count();
  double peaks = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const NodeGroup& group = cluster.group_of(rank);
    peaks += peak_flops(group.device, type) / group.sharing_ranks(ranks);
  }
  return peaks;
}

std::string largest_share(const StepPrediction& prediction) {
  const TimeShares& shares = prediction.shares;
  std::vector<std::pair<double, std::string>> parts{{shares.products, "products"},
                                                    {shares.attention, "attention"},
                                                    {shares.memory, "memory bandwidth"},
                                                    {shares.launch, "kernel launches"},
                                                    {shares.transfer, "copies to and from host memory"},
                                                    {shares.idle, "waits for other ranks"}};
  for (const auto& [axes, seconds] : prediction.exposed_seconds) {
    parts.emplace_back(seconds, "communication over " + axes);
  }
  const auto most =
      std::ranges::max_element(parts, [](const auto& one, const auto& other) { return one.first < other.first; });
  return most->second;
}

}  // namespace

std::int64_t StepPrediction::excess_bytes(const Device& device, const Cluster& cluster) const {
  std::int64_t excess = std::max<std::int64_t>(peak_bytes - device.memory_bytes(), 0);
  if (offloaded_bytes == 0) return excess;
  for (int rank = 0; rank < ranks; rank += cluster.group_of(rank).devices) {
    const auto host = cluster.host_memory_bytes(rank, ranks, peak_bytes);
    if (host) excess = std::max(excess, offloaded_bytes - *host);
  }
  return excess;
}

StepPrediction simulate_step(const Compiled& compiled, const OpRegistry& registry, const Cluster& cluster) {
  return simulate_step(compiled, time_programs(compiled, registry, cluster), registry, cluster);
}

StepPrediction simulate_step(const Compiled& compiled, const TimedPrograms& timed, const OpRegistry& registry,
                             const Cluster& cluster) {
  const std::vector<double> counts = rank_counts(compiled);
  const auto ranks = static_cast<double>(compiled.mesh.rank_count());
  StepPrediction prediction;
  double flops = 0;
  const StepVariants variants = step_variants(compiled);
  for (const StepVariant& variant : variants.variants) {
    const double share = static_cast<double>(variant.count) / static_cast<double>(variants.period);
    const Simulation simulation = simulate(timed.programs, compiled.class_of_rank, variant.step, {.pool = timed.pool});
    prediction.seconds += share * simulation.seconds;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      add(prediction, simulation.ranks[i], share * counts[i] / ranks);
      flops += share * counts[i] * product_flops(timed.programs[i], variant.step);
    }
  }
  const double micro_batches = compiled.programs.front().micro_batches;
  const double possible = prediction.seconds * all_peaks(compiled, cluster, product_type(compiled.graph, registry));
  prediction.tokens = static_cast<double>(loss_elements(compiled.graph)) * micro_batches;
  prediction.tokens_per_second = prediction.tokens / prediction.seconds;
  prediction.model_flops_utilization = model_flops(compiled.graph, registry) * micro_batches / possible;
  prediction.hardware_flops_utilization = flops / possible;
  prediction.bubble = prediction.shares.idle / (prediction.seconds - prediction.shares.idle);
  note_memory(prediction, compiled);
  prediction.bound = largest_share(prediction);
  return prediction;
}

StepPrediction extrapolate(const StepPrediction& less, const StepPrediction& more, int steps) {
  const auto line = [&](auto at_less, auto at_more) {
    return at_more + std::max(at_more - at_less, decltype(at_more){}) * steps;
  };
  const auto member = [&](double TimeShares::*part) { return line(less.shares.*part, more.shares.*part); };
  StepPrediction prediction = more;
  prediction.seconds = line(less.seconds, more.seconds);
  prediction.tokens = line(less.tokens, more.tokens);
  prediction.tokens_per_second = prediction.tokens / prediction.seconds;
  const auto utilization = [&](double StepPrediction::*share) {
    return line(less.*share * less.seconds, more.*share * more.seconds) / prediction.seconds;
  };
  prediction.model_flops_utilization = utilization(&StepPrediction::model_flops_utilization);
  prediction.hardware_flops_utilization = utilization(&StepPrediction::hardware_flops_utilization);
  prediction.peak_bytes = line(less.peak_bytes, more.peak_bytes);
  prediction.offloaded_bytes = line(less.offloaded_bytes, more.offloaded_bytes);
  for (auto& [kind, bytes] : prediction.bytes_at_peak) {
    const auto found = less.bytes_at_peak.find(kind);
    bytes = line(found == less.bytes_at_peak.end() ? std::int64_t{0} : found->second, bytes);
  }
  for (std::size_t i = 0; i < prediction.stage_bytes.size(); ++i) {
    prediction.stage_bytes[i] = line(less.stage_bytes.at(i), more.stage_bytes[i]);
  }
  for (auto& [axes, seconds] : prediction.exposed_seconds) {
    const auto found = less.exposed_seconds.find(axes);
    seconds = line(found == less.exposed_seconds.end() ? 0.0 : found->second, seconds);
  }
  prediction.shares = {member(&TimeShares::products), member(&TimeShares::attention), member(&TimeShares::memory),
                       member(&TimeShares::launch),   member(&TimeShares::exposed),   member(&TimeShares::transfer),
                       member(&TimeShares::idle)};
  prediction.bubble = prediction.shares.idle / (prediction.seconds - prediction.shares.idle);
  prediction.bound = largest_share(prediction);
  return prediction;
}

std::vector<double> simulate_spread(const Compiled& compiled, const OpRegistry& registry, const Cluster& cluster,
                                    const KernelSpread& spread) {
  std::vector<double> seconds(static_cast<std::size_t>(spread.repeats));
  const TimedPrograms timed = time_programs(compiled, registry, cluster);
  const StepVariants variants = step_variants(compiled);
  for (const StepVariant& variant : variants.variants) {
    const double share = static_cast<double>(variant.count) / static_cast<double>(variants.period);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const SimulationSettings settings{.pool = timed.pool, .spread = spread.share, .seed = i};
      seconds[i] += share * simulate(timed.programs, compiled.class_of_rank, variant.step, settings).seconds;
    }
  }
  std::ranges::sort(seconds);
  return seconds;
}

}  // namespace strata::host

#include "plan/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "files/text_format.hpp"

namespace strata::host {
namespace {

/// The plugins, sizes and options of a plan: "tensor", "tensor 8", "tensor sequence_parallel=true".
std::set<std::string> traits(const PlanSpace& space, const PlanChoice& choice) {
  std::set<std::string> found;
  for (const PlanPart& part : space.chosen(choice)) {
    found.insert(part.plugin);
    for (const auto& [name, value] : part.proposal.options) {
      if (part.is_size(name)) {
        found.insert(fmt::format("{} {}", part.plugin, part.proposal.ranks));
      } else if (value != OptionValue(false)) {
        found.insert(PlanPart{part.plugin, part.schema, {{{name, value}}, 1}}.text());
      }
    }
  }
  return found;
}

}  // namespace

std::string plan_table(const PlanSpace& space, const std::vector<EvaluatedPlan>& plans, const std::string& unit,
                       std::size_t rows) {
  std::string text = fmt::format("{:>4} {:>10} {:>12} {:>5} {:>10}  {:<28} {}\n", "", "step", unit + "s/s", "MFU",
                                 "memory", "bound by", "plan");
  for (std::size_t i = 0; i < std::min(rows, plans.size()) && plans[i].works(); ++i) {
    const StepPrediction& each = *plans[i].prediction;
    text += fmt::format("{:>4} {:>10} {:>12} {:>4.1f}% {:>10}  {:<28} {}\n", i + 1, step_duration(each.seconds, 1),
                        short_number(each.tokens_per_second), 100 * each.model_flops_utilization,
                        short_bytes(each.peak_bytes), each.bound, space.text(plans[i].choice));
  }
  return text;
}

std::string refinement_text(const PlanSpace& space, const EvaluatedPlan& before, const RefinedPlan& refined) {
  if (refined.plan.choice == before.choice) {
    return fmt::format("refined: none of {} trials is better than the first plan\n", refined.trials);
  }
  const StepPrediction& old = *before.prediction;
  const StepPrediction& step = *refined.plan.prediction;
  return fmt::format("refined in {} trials: {} becomes {} ({:+.1f}%), {} becomes {}\n     {}\n", refined.trials,
                     step_duration(old.seconds, 1), step_duration(step.seconds, 1),
                     100 * (step.seconds / old.seconds - 1), short_bytes(old.peak_bytes), short_bytes(step.peak_bytes),
                     space.text(refined.plan.choice));
}

std::string plan_reasons(const PlanSpace& space, const std::vector<EvaluatedPlan>& plans) {
  std::vector<std::pair<std::set<std::string>, double>> working;
  std::set<std::string> all;
  for (const EvaluatedPlan& plan : plans) {
    if (!plan.works()) continue;
    working.emplace_back(traits(space, plan.choice), plan.prediction->seconds);
    all.insert(working.back().first.begin(), working.back().first.end());
  }
  std::string text = fmt::format("{:<40} {:>12} {:>12}\n", "", "best with", "best without");
  for (const std::string& trait : all) {
    std::optional<double> with;
    std::optional<double> without;
    for (const auto& [own, seconds] : working) {
      std::optional<double>& best = own.contains(trait) ? with : without;
      if (!best || seconds < *best) best = seconds;
    }
    const auto cell = [](const std::optional<double>& seconds) {
      return seconds ? step_duration(*seconds, 1) : "none";
    };
    text += fmt::format("{:<40} {:>12} {:>12}\n", trait, cell(with), cell(without));
  }
  return text;
}

std::string dropped_plans(const PlanSpace& space, const std::vector<EvaluatedPlan>& plans, std::size_t rows) {
  std::string text;
  std::size_t shown = 0;
  const double best = plans.front().works() ? plans.front().prediction->seconds : 0;
  for (const EvaluatedPlan& plan : plans) {
    if (!plan.dropped) continue;
    if (text.empty()) {
      text = fmt::format("{:>17} {:>11} {:>17}  dropped\n", "step, at least", "than best", "memory, at least");
    }
    text += fmt::format("{:>17} {:>+10.0f}% {:>17}  {}\n", step_duration(plan.dropped->seconds, 1),
                        100 * (plan.dropped->seconds / best - 1), short_bytes(plan.dropped->bytes),
                        space.text(plan.choice));
    if (++shown == rows) break;
  }
  return text;
}

std::string describe_nearest_miss(const PlanSpace& space, const std::vector<EvaluatedPlan>& plans) {
  if (!plans.empty() && plans.front().prediction) {
    const EvaluatedPlan& nearest = plans.front();
    const std::int64_t offloaded = nearest.prediction->offloaded_bytes;
    return fmt::format(
        "no plan fits into the memory of a device{}: the nearest needs {} a device{}, {} too much: {}; accepted: more "
        "devices, devices{} with more memory, a smaller model or a shorter sequence",
        offloaded == 0 ? "" : " and of a node", short_bytes(nearest.prediction->peak_bytes),
        offloaded == 0 ? "" : " and " + short_bytes(offloaded) + " of host memory a rank",
        short_bytes(nearest.excess_bytes), space.text(nearest.choice), offloaded == 0 ? "" : " or nodes");
  }
  if (space.devices() % space.kept_ranks() != 0) {
    return fmt::format(
        "no plan is possible: the strategies that stay in every plan use {} ranks, which do not divide the {} devices; "
        "accepted: --devices with a multiple",
        space.kept_ranks(), space.devices());
  }
  if (plans.empty()) {
    const std::string demands = space.demands();
    return fmt::format(
        "no plan is possible: no combination of sizes uses {} devices and divides the global batch{}; accepted: other "
        "--devices{}",
        space.devices(), demands.empty() ? "" : " with " + demands,
        demands.empty() ? ", or another --global-batch" : ", another --global-batch, or other demands");
  }
  std::map<std::string, int> reasons;
  for (const EvaluatedPlan& plan : plans) ++reasons[plan.refusal];
  std::string text = "no plan is possible";
  for (const auto& [reason, count] : reasons)
    text += fmt::format("\n  {} of {} plans: {}", count, plans.size(), reason);
  return text;
}

}  // namespace strata::host

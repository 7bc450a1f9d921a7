#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.hpp"
#include "cli/progress_bar.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "plan/plan_evaluation.hpp"
#include "plan/plan_report.hpp"
#include "plan/plan_search.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

/// Plans that are shown.
constexpr std::size_t kShownPlans = 10;

struct PlanArguments {
  ConfigurationArguments configuration;
  TargetArguments target;
  PlanDemands demands;
  std::optional<std::int64_t> global_batch;
  std::string goal = "time";
  std::string output;
  bool explain = false;
  bool json = false;
};

ordered_json to_json(const PlanSpace& space, const EvaluatedPlan& plan) {
  const StepPrediction& each = *plan.prediction;
  return {{"plan", space.text(plan.choice)},
          {"step_seconds", each.seconds},
          {"tokens_per_second", each.tokens_per_second},
          {"model_flops_utilization", each.model_flops_utilization},
          {"peak_bytes", each.peak_bytes},
          {"bubble", each.bubble},
          {"bound", each.bound},
          {"configuration", to_toml(space.configuration(plan.choice))}};
}

void print_plans(CommandContext& context, const PlanArguments& arguments, const PlanSpace& space,
                 const std::vector<EvaluatedPlan>& plans, const std::string& unit) {
  const auto working = std::count_if(plans.begin(), plans.end(), [](const auto& plan) { return plan.works(); });
  const auto large = std::count_if(plans.begin(), plans.end(), [](const auto& plan) { return plan.excess_bytes > 0; });
  context.out << fmt::format("{} plans tried: {} work, {} need too much memory, {} are refused\n\n", plans.size(),
                             working, large, plans.size() - static_cast<std::size_t>(working + large))
              << plan_table(space, plans, unit, kShownPlans);
  if (arguments.explain) context.out << '\n' << plan_reasons(space, plans);
}

int plan(const PlanArguments& arguments, CommandContext& context) {
  RunConfiguration configuration = arguments.configuration.load();
  if (arguments.global_batch) configuration.batch.global = *arguments.global_batch;
  const InspectionTarget target = arguments.target.find_with_cluster(configuration);
  const PlanSpace space(configuration, context.plugins(), *target.cluster, target.vocab, arguments.demands);
  const PlanEvaluator evaluator(space, context.plugins(), *target.cluster);
  auto bar = std::make_unique<ProgressBar>(context.messages);
  PlanSearchSettings settings;
  settings.finalists = kShownPlans;
  settings.goal = arguments.goal == "memory" ? PlanGoal::memory : PlanGoal::time;
  settings.threads = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
  settings.progress = [&](std::size_t done, std::size_t most) {
    const double share = static_cast<double>(done) / static_cast<double>(std::max<std::size_t>(most, 1));
    if (bar->is_due()) bar->show(share, fmt::format("{} plans tried", done));
  };
  const std::vector<EvaluatedPlan> plans = search_plans(
      space, [&](const PlanChoice& choice, bool is_trial) { return evaluator.evaluate(choice, is_trial); }, settings);
  bar.reset();
  if (plans.empty() || !plans.front().works()) throw ConfigurationError(describe_nearest_miss(space, plans));
  if (!arguments.output.empty()) write_named_file(arguments.output, to_toml(space.configuration(plans.front().choice)));
  if (arguments.json) {
    ordered_json shown = ordered_json::array();
    for (const EvaluatedPlan& each : plans) {
      if (shown.size() < kShownPlans && each.works()) shown.push_back(to_json(space, each));
    }
    write_json(context.out, {{"cluster", target.cluster->name}, {"tried", plans.size()}, {"plans", shown}});
  } else {
    print_plans(context, arguments, space, plans, space.unit());
    if (!arguments.output.empty()) context.out << "\nthe first plan: " << arguments.output << '\n';
  }
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<PlanArguments>(
      app, context, "plan", "Find the strategies, sizes and options that train a model fastest on a cluster", plan);
  add_configuration(*command, arguments->configuration);
  add_target(*command, arguments->target);
  command->add_option("OUT", arguments->output, "File for the configuration of the best plan")->type_name("FILE");
  command
      ->add_option(
          "--fix", arguments->demands.fixed,
          "What every plan has: a strategy with its ranks, or with an option, such as tensor=8 or zero.stage=3")
      ->type_name("STRATEGY[.OPTION]=VALUE")
      ->allow_extra_args(false);
  command->add_option("--never", arguments->demands.never, "A strategy that no plan has")
      ->type_name("STRATEGY")
      ->allow_extra_args(false);
  command->add_option("--global-batch", arguments->global_batch, "Samples of a step, instead of batch.global")
      ->type_name("N")
      ->check(number_from(1));
  command->add_option("--minimise", arguments->goal, "What the best plan has least of, default time")
      ->check(CLI::IsMember({"time", "memory"}));
  command->add_flag("--explain", arguments->explain,
                    "Show what each strategy and option is worth: the best plan with it and without it");
  command->add_flag("--json", arguments->json, "Print the plans as JSON, with their configurations");
}

}  // namespace strata::host

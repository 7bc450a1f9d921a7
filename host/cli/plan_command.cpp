#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "cluster/cluster_file.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/progress_bar.hpp"
#include "files/text_format.hpp"
#include "plan/find_plans.hpp"
#include "plan/plan_report.hpp"
#include "simulate/run_cost.hpp"
#include "strata/error.hpp"
#include "train/run_folder.hpp"

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
  /// A checkpoint, or the output folder of a run, which goes on with the plan.
  std::string resume;
  std::string output;
  bool refine = false;
  bool explain = false;
  bool json = false;
};

ordered_json to_json(const PlanSpace& space, const EvaluatedPlan& plan, const RunConfiguration& configuration) {
  const StepPrediction& each = *plan.prediction;
  return {{"plan", space.text(plan.choice)},
          {"step_seconds", each.seconds},
          {"tokens_per_second", each.tokens_per_second},
          {"model_flops_utilization", each.model_flops_utilization},
          {"peak_bytes", each.peak_bytes},
          {"bubble", each.bubble},
          {"bound", each.bound},
          {"configuration", to_toml(configuration)}};
}

/// Plans with what the goal has least of, which tells whether fewer devices are better.
struct ComparedPlans : DevicePlans {
  /// The configuration of the first plan. Empty: none works.
  std::optional<RunConfiguration> chosen = {};
  /// Of the best plan: seconds of a step, or money for a million tokens. Empty: none works.
  std::optional<double> cost;
};

double money_per_million(const StepPrediction& step, const Cluster& cluster, int devices) {
  constexpr double kMillion = 1e6;
  return run_cost(step, cluster, devices, 1, 0).money_per_token.value() * kMillion;
}

PlanSearchSettings settings_of(const PlanArguments& arguments, ProgressBar& bar) {
  PlanSearchSettings settings;
  settings.finalists = kShownPlans;
  settings.goal = arguments.goal == "memory" ? PlanGoal::memory : PlanGoal::time;
  settings.progress = [&](std::size_t done, std::size_t most) {
    const double share = static_cast<double>(done) / static_cast<double>(std::max<std::size_t>(most, 1));
    if (bar.is_due()) bar.show(share, fmt::format("{} plans tried", done));
  };
  return settings;
}

ComparedPlans search(const PlanArguments& arguments, const RunConfiguration& configuration,
                     const InspectionTarget& target, int devices, CommandContext& context) {
  PlanDemands demands = arguments.demands;
  demands.devices = devices;
  ProgressBar bar(context.messages);
  ComparedPlans found{
      find_plans(configuration, target, demands, settings_of(arguments, bar), context.plugins()), {}, {}};
  found.chosen = check_first(found, target, context.plugins());
  if (!found.chosen) return found;
  const StepPrediction& best = *found.plans.front().prediction;
  found.cost = arguments.goal == "money" ? money_per_million(best, *target.cluster, devices) : best.seconds;
  return found;
}

/// How many devices to try after those of `tried`. 0: none. Fewer are tried if no plan was possible, if money is
/// minimised and the last number made the run cheaper, or if kernels were measured with fewer ranks.
int next_devices(const PlanArguments& arguments, const std::vector<ComparedPlans>& tried, const Cluster& cluster) {
  const ComparedPlans& last = tried.back();
  const int devices = last.space->devices();
  if (arguments.demands.devices > 0) return 0;
  if (arguments.goal == "money") {
    const std::optional<double> before = tried.size() > 1 ? tried[tried.size() - 2].cost : std::nullopt;
    const bool is_dearer = before && (!last.cost || *last.cost >= *before);
    return is_dearer || (last.is_possible() && !last.works()) ? 0 : fewer_devices(devices);
  }
  if (!last.is_possible()) return fewer_devices(devices);
  return arguments.goal == "time" ? fewer_measured_ranks(cluster, devices) : 0;
}

std::vector<ComparedPlans> search_all(const PlanArguments& arguments, const RunConfiguration& configuration,
                                      const InspectionTarget& target, CommandContext& context) {
  const int all = planned_devices(*target.cluster);
  const int given = arguments.demands.devices;
  if (given > all) {
    throw ConfigurationError("--devices: found " + std::to_string(given) + "; accepted: 1 to " + std::to_string(all) +
                             ", the devices of the cluster '" + target.cluster->name + "'");
  }
  const std::vector<NodeGroup>& groups = target.cluster->groups;
  if (arguments.goal == "money" &&
      !std::ranges::all_of(groups, [](const auto& each) { return each.price.has_value(); })) {
    throw ConfigurationError("--minimise money: the cluster '" + target.cluster->name +
                             "' has nodes without a price; accepted: a cluster whose [[cluster.group]] have one");
  }
  std::vector<ComparedPlans> tried;
  for (int devices = given > 0 ? given : all; devices > 0;) {
    try {
      tried.push_back(search(arguments, configuration, target, devices, context));
    } catch (const ConfigurationError&) {
      // On fewer devices nothing may meet a demand, such as tensor=8 on four.
      if (tried.empty()) throw;
      break;
    }
    devices = next_devices(arguments, tried, *target.cluster);
  }
  return tried;
}

/// The plans to show: those with the least cost that work, else the first.
const ComparedPlans& best_of(const std::vector<ComparedPlans>& tried) {
  const ComparedPlans* best = nullptr;
  for (const ComparedPlans& each : tried) {
    if (!each.works()) continue;
    if (best == nullptr || *each.cost < *best->cost) best = &each;
  }
  return best == nullptr ? tried.front() : *best;
}

/// The cost of the best plan, by the number of devices.
void print_costs(CommandContext& context, const PlanArguments& arguments, const std::vector<ComparedPlans>& tried,
                 const Cluster& cluster) {
  for (const ComparedPlans& each : tried) {
    context.out << fmt::format("{:>6} devices: ", each.space->devices());
    if (!each.cost) {
      context.out << "no plan\n";
    } else if (arguments.goal == "money") {
      context.out << fmt::format("{:.4f} {} for a million {}s\n", *each.cost, cluster.currency, each.space->unit());
    } else {
      context.out << fmt::format("{:.1f} ms per step\n", 1e3 * *each.cost);
    }
  }
}

void print_plans(CommandContext& context, const PlanArguments& arguments, const std::vector<ComparedPlans>& tried,
                 const Cluster& cluster) {
  const ComparedPlans& best = best_of(tried);
  const auto& space = best.space;
  const auto& plans = best.plans;
  if (space->devices() < planned_devices(cluster)) {
    context.out << fmt::format("plans for {} of {} devices\n", space->devices(), planned_devices(cluster));
  }
  const bool compares = tried.size() > 1 && tried.front().cost;
  if (arguments.goal == "money" || compares) print_costs(context, arguments, tried, cluster);
  const auto working = std::ranges::count_if(plans, [](const auto& plan) { return plan.works(); });
  const auto large = std::ranges::count_if(plans, [](const auto& plan) { return plan.excess_bytes > 0; });
  const auto dropped = std::ranges::count_if(plans, [](const auto& plan) { return plan.dropped.has_value(); });
  context.out << fmt::format(
                     "{} plans tried: {} work, {} need too much memory, {} are refused; {} dropped by their bounds\n\n",
                     plans.size() - static_cast<std::size_t>(dropped), working, large,
                     plans.size() - static_cast<std::size_t>(working + large + dropped), dropped)
              << plan_table(*space, plans, space->unit(), kShownPlans);
  if (!arguments.explain) return;
  context.out << '\n' << plan_reasons(*space, plans);
  if (dropped > 0) context.out << '\n' << dropped_plans(*space, plans, kShownPlans);
}

/// The configuration of a run that is to go on. Its model, its seed and its global batch stay.
RunConfiguration stored_configuration(const PlanArguments& arguments) {
  const CheckpointReader checkpoint(find_checkpoint(arguments.resume));
  RunConfiguration configuration = checkpoint.configuration(arguments.configuration.overrides);
  if (arguments.global_batch && *arguments.global_batch != configuration.batch.global) {
    throw ConfigurationError(fmt::format("--global-batch: found {}; accepted with --resume: {}, which the run has",
                                         *arguments.global_batch, configuration.batch.global));
  }
  std::error_code missing;
  const bool is_output = std::filesystem::equivalent(arguments.resume, configuration.run.output, missing);
  configuration.run.resume = is_output ? kResumeAuto : arguments.resume;
  return configuration;
}

/// The arguments with the only file in its place: with --resume it is OUT, else CONFIG.
PlanArguments with_files(PlanArguments arguments) {
  std::string& configuration = arguments.configuration.file;
  if (arguments.resume.empty()) {
    if (configuration.empty()) throw ConfigurationError("CONFIG is missing; accepted: a run's TOML file, or --resume");
  } else if (arguments.output.empty()) {
    std::swap(arguments.output, configuration);
  } else {
    throw ConfigurationError("CONFIG: found '" + configuration +
                             "'; accepted with --resume: OUT alone, because the checkpoint has the configuration");
  }
  return arguments;
}

int plan(const PlanArguments& given, CommandContext& context) {
  const PlanArguments arguments = with_files(given);
  RunConfiguration configuration =
      arguments.resume.empty() ? arguments.configuration.load() : stored_configuration(arguments);
  if (arguments.global_batch) configuration.batch.global = *arguments.global_batch;
  const InspectionTarget target = arguments.target.find_with_cluster(configuration);
  if (!arguments.output.empty()) require_named_file(arguments.output);
  const std::vector<ComparedPlans> tried = search_all(arguments, configuration, target, context);
  const ComparedPlans& best = best_of(tried);
  const PlanSpace& space = *best.space;
  if (!best.works()) throw ConfigurationError(describe_nearest_miss(space, best.plans));
  RefinedPlan refined{best.plans.front()};
  RunConfiguration chosen = *best.chosen;
  if (arguments.refine) {
    ProgressBar bar(context.messages);
    refined = refine_first(best, target, settings_of(arguments, bar), context.plugins());
  }
  if (refined.plan.choice != best.plans.front().choice) {
    CheckedPlan checked = check_plan(space, refined.plan.choice, target, context.plugins());
    if (!checked.fault.empty()) throw ConfigurationError("the refined plan cannot run: " + checked.fault);
    chosen = std::move(checked.configuration);
  }
  if (!arguments.output.empty()) write_named_file(arguments.output, to_toml(chosen));
  if (arguments.json) {
    ordered_json shown = ordered_json::array();
    for (const EvaluatedPlan& each : best.plans) {
      if (shown.size() == kShownPlans || !each.works()) break;
      shown.push_back(to_json(space, each, shown.empty() ? *best.chosen : space.configuration(each.choice)));
    }
    ordered_json report = {{"cluster", target.cluster->name},
                           {"cluster_file", to_toml(*target.cluster)},
                           {"devices", space.devices()},
                           {"tried", best.plans.size()},
                           {"plans", shown}};
    if (arguments.refine) report["refined"] = to_json(space, refined.plan, chosen);
    write_json(context.out, report);
  } else {
    print_plans(context, arguments, tried, *target.cluster);
    if (arguments.refine) context.out << '\n' << refinement_text(space, best.plans.front(), refined);
    if (!arguments.output.empty()) {
      context.out << "\nthe " << (arguments.refine ? "refined" : "first") << " plan: " << arguments.output << '\n';
      if (chosen.run.checkpoint_mode != configuration.run.checkpoint_mode) {
        context.out << "its checkpoints are written in the foreground: host memory has no place for copies of them\n";
      }
    }
  }
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<PlanArguments>(
      app, context, "plan", "Find the strategies, sizes and options that train a model fastest on a cluster", plan);
  add_configuration(*command, arguments->configuration, false);
  add_target(*command, arguments->target);
  command->add_option("OUT", arguments->output, "File for the configuration of the best plan")->type_name("FILE");
  command
      ->add_option("--resume", arguments->resume,
                   "Plan how a run goes on, whose checkpoint or output folder this is, instead of CONFIG: on other "
                   "machines, with its global batch and its order of the data")
      ->type_name("RUN");
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
      ->check(CLI::IsMember({"time", "memory", "money"}));
  command
      ->add_option(
          "--devices", arguments->demands.devices,
          "Devices of a plan, the first of the cluster. Default: all, and fewer where no plan can use all, where "
          "they are faster on a calibrated machine without GPUs, or where --minimise money finds them cheaper")
      ->type_name("N")
      ->check(number_from(1));
  command->add_flag("--refine", arguments->refine,
                    "Improve the best plan by rules for parts of the model, such as one half of its layers");
  command->add_flag("--explain", arguments->explain,
                    "Show what each strategy and option is worth: the best plan with it and without it");
  command->add_flag("--json", arguments->json, "Print the plans as JSON, with their configurations");
}

}  // namespace strata::host

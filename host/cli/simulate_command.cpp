#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "simulate/chakra_trace.hpp"
#include "simulate/instruction_times.hpp"
#include "simulate/prediction.hpp"
#include "simulate/run_cost.hpp"
#include "simulate/simulation_trace.hpp"
#include "train/inspection.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

constexpr double kPercent = 100;
/// Quantiles of varying steps that are shown, in percent.
constexpr std::array kQuantiles{10, 50, 90, 99};

struct SimulateArguments {
  ConfigurationArguments configuration;
  TargetArguments target;
  bool json = false;
  std::string trace;
  std::string timeline;
  std::string chakra;
  /// Percent; empty: kernels do not vary.
  std::optional<double> jitter;
};

/// A prediction with all that its report needs.
struct Report {
  const Inspection& inspection;
  const Cluster& cluster;
  StepPrediction step;
  RunCost cost;
  /// Step times with varying kernels, ascending. Empty: not asked for.
  std::vector<double> varied;
};

/// Bytes that the fullest node writes for a checkpoint.
std::int64_t node_checkpoint_bytes(const Inspection& inspection, const Cluster& cluster) {
  const std::vector<std::int64_t>& copies = inspection.planned_checkpoint_bytes;
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank < copies.size();) {
    const std::size_t end =
        std::min(copies.size(), rank + static_cast<std::size_t>(cluster.group_of(static_cast<int>(rank)).devices));
    std::int64_t bytes = 0;
    for (; rank < end; ++rank) bytes += copies[rank];
    most = std::max(most, bytes);
  }
  return most;
}

Report predict(const Inspection& inspection, std::optional<double> jitter) {
  const Compiled& training = inspection.programs.training;
  const Cluster& cluster = *inspection.cluster;
  Report report{inspection, cluster, simulate_step(training, *inspection.setup.ops, cluster), {}, {}};
  report.cost = run_cost(report.step, cluster, training.mesh.rank_count(), inspection.setup.configuration.run.steps,
                         node_checkpoint_bytes(inspection, cluster));
  if (jitter) report.varied = simulate_spread(training, *inspection.setup.ops, cluster, {.share = *jitter / kPercent});
  return report;
}

/// The value that so many percent of the sorted ones do not exceed.
double quantile(const std::vector<double>& sorted, double percent) {
  const auto at = std::ceil(percent / kPercent * static_cast<double>(sorted.size())) - 1;
  return sorted.at(static_cast<std::size_t>(std::max(at, 0.0)));
}

ordered_json quantiles_json(const std::vector<double>& varied) {
  if (varied.empty()) return nullptr;
  ordered_json quantiles;
  for (const int percent : kQuantiles) quantiles[std::to_string(percent)] = quantile(varied, percent);
  return quantiles;
}

template <class Value>
ordered_json or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json failures_json(const std::optional<FailureCost>& failures) {
  if (!failures) return nullptr;
  return {{"mean_seconds", failures->mean_seconds},
          {"checkpoint_seconds", failures->checkpoint_seconds},
          {"young_seconds", failures->young_seconds},
          {"daly_seconds", failures->daly_seconds},
          {"lost_share", failures->lost_share}};
}

ordered_json to_json(const Report& report) {
  const StepPrediction& step = report.step;
  const TimeShares& shares = step.shares;
  ordered_json memory = ordered_json::object();
  for (const auto& [kind, bytes] : step.bytes_at_peak) memory[std::string(to_string(kind))] = bytes;
  return {{"cluster", report.cluster.name},
          {"ranks", report.inspection.programs.training.mesh.rank_count()},
          {"nodes", report.cost.nodes},
          {"step_seconds", step.seconds},
          {"step_seconds_quantiles", quantiles_json(report.varied)},
          {"tokens_per_step", step.tokens},
          {"tokens_per_second", step.tokens_per_second},
          {"model_flops_utilization", step.model_flops_utilization},
          {"hardware_flops_utilization", step.hardware_flops_utilization},
          {"peak_bytes", step.peak_bytes},
          {"device_bytes", report.inspection.device_bytes},
          {"bytes_at_peak", memory},
          {"bubble", step.bubble},
          {"exposed_seconds", step.exposed_seconds},
          {"bound", step.bound},
          {"seconds_by_work",
           {{"products", shares.products},
            {"attention", shares.attention},
            {"memory", shares.memory},
            {"launch", shares.launch},
            {"exposed", shares.exposed},
            {"transfer", shares.transfer},
            {"idle", shares.idle}}},
          {"joules_per_token", or_null(report.cost.joules_per_token)},
          {"money_per_token", or_null(report.cost.money_per_token)},
          {"money", or_null(report.cost.money)},
          {"currency", report.cluster.currency},
          {"failures", failures_json(report.cost.failures)}};
}

/// "tp 12.0%, dp 3.1%" of the step.
std::string exposed_text(const StepPrediction& step) {
  std::string text;
  for (const auto& [axes, seconds] : step.exposed_seconds) {
    text += fmt::format("{}{} {:.1f}%", text.empty() ? " (" : ", ", axes, 100 * seconds / step.seconds);
  }
  return text.empty() ? text : text + ")";
}

void print_time(std::ostream& out, const StepPrediction& step) {
  const auto share = [&](double seconds) { return 100 * seconds / step.seconds; };
  const TimeShares& shares = step.shares;
  out << fmt::format(
      "time        products {:.1f}%, attention {:.1f}%, other ops {:.1f}%, launches {:.1f}%, copies {:.1f}%\n"
      "            communication {:.1f}%{}, waits for other ranks {:.1f}%\n"
      "bound by    {}\n",
      share(shares.products), share(shares.attention), share(shares.memory), share(shares.launch),
      share(shares.transfer), share(shares.exposed), exposed_text(step), share(shares.idle), step.bound);
}

void print_memory(std::ostream& out, const Report& report) {
  out << "memory      " << short_bytes(report.step.peak_bytes) << " of " << short_bytes(report.inspection.device_bytes)
      << " on the fullest rank";
  std::string kinds;
  for (const auto& [kind, bytes] : report.step.bytes_at_peak) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? ": " : ", ", to_string(kind), short_bytes(bytes));
  }
  out << kinds << '\n';
  if (report.step.peak_bytes > report.inspection.device_bytes) out << "            the run does not fit\n";
}

void print_cost(std::ostream& out, const Report& report) {
  constexpr double kMillion = 1e6;
  constexpr double kJoulesPerKilowattHour = 3.6e6;
  const RunCost& cost = report.cost;
  const std::string& unit = report.inspection.setup.unit;
  if (cost.joules_per_token) {
    out << fmt::format("energy      {:.3g} kWh for a million {}s, of the devices alone\n",
                       *cost.joules_per_token * kMillion / kJoulesPerKilowattHour, unit);
  }
  if (cost.money) {
    out << fmt::format("money       {:.2f} {} for a million {}s, {:.0f} {} for {} steps\n",
                       *cost.money_per_token * kMillion, report.cluster.currency, unit, *cost.money,
                       report.cluster.currency, report.inspection.setup.configuration.run.steps);
  }
  if (!cost.failures) return;
  out << fmt::format(
      "failures    one in {}; a checkpoint takes {}, best every {} (Daly; Young: {}); {:.1f}% of the time is lost\n",
      short_duration(cost.failures->mean_seconds), step_duration(cost.failures->checkpoint_seconds),
      short_duration(cost.failures->daly_seconds), short_duration(cost.failures->young_seconds),
      100 * cost.failures->lost_share);
}

void print(std::ostream& out, const Report& report) {
  const StepPrediction& step = report.step;
  const std::string& unit = report.inspection.setup.unit;
  const int ranks = report.inspection.programs.training.mesh.rank_count();
  out << fmt::format("cluster     {}, {} rank{} on {} node{}\n", report.inspection.device_text(), ranks,
                     ranks == 1 ? "" : "s", report.cost.nodes, report.cost.nodes == 1 ? "" : "s")
      << fmt::format("step        {}, {} {}s per second\n", step_duration(step.seconds),
                     short_number(step.tokens_per_second), unit)
      << fmt::format("FLOPs       {:.1f}% of the peak for the model (MFU), {:.1f}% with what is repeated (HFU)\n",
                     100 * step.model_flops_utilization, 100 * step.hardware_flops_utilization);
  if (!report.varied.empty()) {
    out << "quantiles  ";
    for (const int percent : kQuantiles)
      out << fmt::format(" {}%: {} ", percent, step_duration(quantile(report.varied, percent)));
    out << "of " << report.varied.size() << " steps with varying kernels\n";
  }
  print_memory(out, report);
  print_time(out, step);
  out << fmt::format("bubble      {:.1f}% of the working time\n", 100 * step.bubble);
  print_cost(out, report);
}

void write_pictures(const SimulateArguments& arguments, const Inspection& inspection) {
  if (arguments.trace.empty() && arguments.timeline.empty()) return;
  const Compiled& training = inspection.programs.training;
  const TimedPrograms timed = time_programs(training, *inspection.setup.ops, *inspection.cluster);
  const Simulation simulation =
      simulate(timed.programs, training.class_of_rank, 0, {.pool = timed.pool, .records = true});
  if (!arguments.trace.empty()) write_named_file(arguments.trace, simulation_trace(simulation));
  if (arguments.timeline.empty()) return;
  const SimulatedTimeline drawn = simulated_timeline(simulation, timed.programs);
  write_named_file(
      arguments.timeline,
      timeline_svg(drawn.timeline, fmt::format("{} on {}, a unit is {}", inspection.setup.configuration.run.name,
                                               inspection.cluster->name, step_duration(drawn.unit_seconds))));
}

/// A file for each rank, with the ending that ASTRA-sim expects.
void write_chakra(const std::string& folder, const Inspection& inspection) {
  const Compiled& training = inspection.programs.training;
  const TimedPrograms timed = time_programs(training, *inspection.setup.ops, *inspection.cluster);
  const std::filesystem::path path(folder);
  make_directories(path);
  ChakraTrace trace(training, *inspection.setup.ops, timed);
  for (int rank = 0; rank < training.mesh.rank_count(); ++rank) {
    write_named_file(path / fmt::format("step.{}.et", rank), trace.of_rank(rank));
  }
  write_named_file(path / "groups.json", trace.groups());
}

int simulate_run(const SimulateArguments& arguments, CommandContext& context) {
  const RunConfiguration configuration = arguments.configuration.load();
  const Inspection inspection =
      inspect(configuration, context.plugins(), arguments.target.find_with_cluster(configuration));
  const Report report = predict(inspection, arguments.jitter);
  if (arguments.json) {
    write_json(context.out, to_json(report));
  } else {
    print(context.out, report);
  }
  write_pictures(arguments, inspection);
  if (!arguments.chakra.empty()) write_chakra(arguments.chakra, inspection);
  return 0;
}

}  // namespace

void add_simulate_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<SimulateArguments>(
      app, context, "simulate", "Predict the time of a step on machines that need not be here", simulate_run);
  add_configuration(*command, arguments->configuration);
  add_target(*command, arguments->target);
  command->add_flag("--json", arguments->json, "Print the prediction as JSON");
  command->add_option("--trace", arguments->trace, "Also write the simulated step as trace events for Perfetto")
      ->type_name("FILE.json");
  command->add_option("--timeline", arguments->timeline, "Also write the simulated timeline as an SVG picture")
      ->type_name("FILE.svg");
  command
      ->add_option("--chakra", arguments->chakra,
                   "Also write the step of every rank to this folder as execution traces of MLCommons Chakra, which "
                   "ASTRA-sim reads")
      ->type_name("FOLDER");
  command
      ->add_option(
          "--jitter", arguments->jitter,
          "Let the times of kernels vary by this standard deviation in percent, and show quantiles of the step")
      ->type_name("PERCENT")
      ->check(number_between(0, kPercent));
}

}  // namespace strata::host

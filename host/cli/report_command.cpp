#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "cli/html_page.hpp"
#include "cli/run_report.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "reports/curve_chart.hpp"
#include "reports/memory_curve.hpp"
#include "reports/run_curve.hpp"
#include "reports/traffic.hpp"
#include "simulate/instruction_times.hpp"
#include "simulate/prediction.hpp"
#include "simulate/simulation_trace.hpp"
#include "strata/error.hpp"
#include "train/inspection.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Points of a diagram of memory.
constexpr int kMoments = 400;
/// Classes of ranks that get a diagram, at most.
constexpr std::size_t kShownClasses = 16;
/// Rows of the matrix of traffic.
constexpr int kTrafficRows = 64;

struct ReportArguments {
  std::string source;
  std::string output;
  std::string configuration;
  TargetArguments target;
};

std::string milliseconds(double seconds) { return format_line("%.3f ms", 1000 * seconds); }

std::string difference(double predicted, double measured) {
  return measured > 0 ? format_line("%+.1f %%", 100 * (predicted / measured - 1)) : "";
}

/// "ranks 0, 1, 4 and 5 more".
std::string class_name(const std::vector<int>& class_of_rank, std::size_t number) {
  constexpr int kNamed = 4;
  std::string name;
  int count = 0;
  for (std::size_t rank = 0; rank < class_of_rank.size(); ++rank) {
    if (static_cast<std::size_t>(class_of_rank[rank]) != number || ++count > kNamed) continue;
    name += (name.empty() ? "" : ", ") + std::to_string(rank);
  }
  const std::string others = count > kNamed ? fmt::format(" and {} more", count - kNamed) : "";
  return (count == 1 ? "rank " : "ranks ") + name + others;
}

void add_memory(HtmlPage& page, const Inspection& inspection) {
  const Compiled& training = inspection.programs.training;
  page.section("Memory of every rank over the step");
  std::vector<RankMemory> ranks;
  for (std::size_t i = 0; i < std::min(training.programs.size(), kShownClasses); ++i) {
    ranks.push_back({class_name(training.class_of_rank, i), memory_curve(training.programs[i], kMoments)});
  }
  page.figure(
      "memory", memory_chart(ranks, inspection.device_bytes),
      fmt::format("Bytes of each kind while a step runs, on {}. Ranks with the same program have one diagram. A "
                  "dashed line is the memory that the device offers: {}.",
                  inspection.device_text(), short_bytes(inspection.device_bytes)));
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    rows.push_back({ranks[i].name, short_bytes(training.plans[i].arena_bytes), short_bytes(ranks[i].memory.peak()),
                    short_bytes(training.plans[i].persistent_bytes)});
  }
  page.table({"ranks", "arena", "alive at once", "between steps"}, rows);
  if (training.programs.size() > kShownClasses) {
    page.paragraph(fmt::format("{} other classes of ranks are left out.", training.programs.size() - kShownClasses));
  }
}

void add_traffic(HtmlPage& page, const Compiled& compiled) {
  page.section("Traffic between ranks");
  if (compiled.mesh.rank_count() == 1) return page.paragraph("One rank sends nothing.");
  const TrafficMatrix matrix = traffic_matrix(compiled, kTrafficRows);
  page.figure("traffic", traffic_chart(matrix),
              fmt::format("Bytes that ranks send each other in a step: {} in all. Collectives are counted as rings.",
                          short_bytes(std::llround(matrix.total()))));
}

/// The timeline of the simulated step, or without a cluster that of FLOPs.
void add_timeline(HtmlPage& page, const Inspection& inspection) {
  page.section("Timeline");
  const Compiled& training = inspection.programs.training;
  const std::string& name = inspection.setup.configuration.run.name;
  if (!inspection.cluster) {
    const PipelineReport pipeline = report_pipeline(inspection, true);
    return page.figure("timeline", timeline_svg(pipeline.flops, name),
                       "Tasks of each stage, with durations by FLOPs. With --cluster they are predicted.");
  }
  const TimedPrograms timed = time_programs(training, *inspection.setup.ops, *inspection.cluster);
  const Simulation simulation =
      simulate(timed.programs, training.class_of_rank, 0, {.pool = timed.pool, .records = true});
  const SimulatedTimeline drawn = simulated_timeline(simulation, timed.programs);
  page.figure("timeline", timeline_svg(drawn.timeline, name),
              fmt::format("Tasks of each class of ranks, as predicted for {}. A unit is {}.", inspection.cluster->name,
                          milliseconds(drawn.unit_seconds)));
}

void add_prediction(HtmlPage& page, const StepPrediction& step) {
  std::vector<std::vector<std::string>> rows = {
      {"step", milliseconds(step.seconds)},
      {"tokens per second", short_number(step.tokens_per_second)},
      {"model FLOPs utilisation", format_line("%.1f %%", 100 * step.model_flops_utilization)},
      {"memory of the fullest rank", short_bytes(step.peak_bytes)},
      {"bound by", step.bound}};
  for (const auto& [axes, seconds] : step.exposed_seconds)
    rows.push_back({"exposed communication over " + axes, milliseconds(seconds)});
  page.table({"predicted", ""}, rows);
}

/// Adds memory, timeline and traffic of the configuration's programs, or the reason why they do not compile here.
/// \return the predicted step if there is a cluster.
std::optional<StepPrediction> add_programs(HtmlPage& page, const RunConfiguration& configuration,
                                           const InspectionTarget& target, CommandContext& context) {
  try {
    const Inspection inspection = inspect(configuration, context.plugins(), target);
    add_memory(page, inspection);
    add_timeline(page, inspection);
    add_traffic(page, inspection.programs.training);
    if (!inspection.cluster) return std::nullopt;
    return simulate_step(inspection.programs.training, *inspection.setup.ops, *inspection.cluster);
  } catch (const ConfigurationError& error) {
    page.section("Memory, timeline and traffic");
    page.paragraph(std::string("They are missing, because the configuration does not compile here: ") + error.what());
    context.log.warning(std::string("no memory, timeline and traffic: ") + error.what());
    return std::nullopt;
  }
}

/// A curve of the log, if the log has the field.
void add_curve(HtmlPage& page, const fs::path& log, const std::string& field, const std::string& caption) {
  std::vector<RunCurve> curves;
  try {
    curves.push_back(read_run_curve(log, {field, CurveX::step}));
  } catch (const ConfigurationError&) {
    return;
  }
  if (curves.front().points.empty()) return;
  const CurvePoint& last = curves.front().points.back();
  page.figure(field, curve_chart(curves, {.title = field, .x_label = "step", .y_label = field}),
              fmt::format("{}: {} at step {}.", caption, exact_number(last.y), exact_number(last.x)));
}

/// The last summary of a log. Null: there is none.
json summary_of(const fs::path& log) {
  json summary;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"summary\"") == std::string::npos) continue;
    json record = json::parse(line, nullptr, false);
    if (record.is_object() && record.value("event", "") == "summary") summary = std::move(record);
  }
  return summary;
}

std::optional<double> number_at(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

void add_measurement(HtmlPage& page, const json& summary, const std::optional<StepPrediction>& predicted) {
  page.section("Prediction and measurement");
  std::vector<std::vector<std::string>> rows;
  const auto measured = number_at(summary, "median_step_seconds");
  auto seconds = number_at(summary, "predicted_step_seconds");
  if (!seconds && predicted) seconds = predicted->seconds;
  if (measured) {
    rows.push_back({"step", seconds ? milliseconds(*seconds) : "none: give a --cluster", milliseconds(*measured),
                    seconds ? difference(*seconds, *measured) : ""});
  }
  const json none = json::array();
  const json& planned = summary.contains("planned_peak_bytes") ? summary.at("planned_peak_bytes") : none;
  const json& touched = summary.contains("arena_peak_bytes") ? summary.at("arena_peak_bytes") : none;
  for (std::size_t rank = 0; planned.is_array() && touched.is_array() && rank < planned.size(); ++rank) {
    if (rank >= touched.size() || !planned[rank].is_number() || !touched[rank].is_number()) break;
    rows.push_back({fmt::format("memory of rank {}", rank), short_bytes(planned[rank].get<std::int64_t>()),
                    short_bytes(touched[rank].get<std::int64_t>()),
                    difference(planned[rank].get<double>(), touched[rank].get<double>())});
  }
  if (rows.empty()) return page.paragraph("The log has no summary, which the end of a run writes.");
  page.table({"", "predicted", "measured", "difference"}, rows);
}

/// The configuration of a run: the given file, or that of the newest checkpoint.
std::optional<RunConfiguration> configuration_of_run(const ReportArguments& arguments) {
  if (!arguments.configuration.empty()) return load_configuration(arguments.configuration);
  try {
    const fs::path source(arguments.source);
    const CheckpointReader reader(find_checkpoint(fs::is_directory(source) ? source : source.parent_path()));
    return reader.configuration();
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The page must not replace a file from which it is made.
void require_other(const std::string& output, const fs::path& source) {
  require_other_file("OUT", output, source, "a file");
}

std::string report_run(const ReportArguments& arguments, CommandContext& context) {
  const fs::path log = read_run_curve(arguments.source, {"loss", CurveX::step}).log;
  require_other(arguments.output, log);
  require_other(arguments.output, arguments.configuration);
  const auto configuration = configuration_of_run(arguments);
  HtmlPage page(configuration ? configuration->run.name : log.stem().string());
  page.section("Training");
  add_curve(page, log, "loss", "Loss in nats, with the validation loss as dots");
  add_curve(page, log, "grad_norm", "Norm of the gradient");
  add_curve(page, log, "tokens_per_second", "Throughput");
  add_curve(page, log, "step_seconds", "Seconds of a step");
  std::optional<StepPrediction> predicted;
  if (configuration) {
    predicted = add_programs(page, *configuration, arguments.target.find(*configuration), context);
  } else {
    page.section("Memory, timeline and traffic");
    page.paragraph("They are missing: there is no checkpoint that has the configuration, and no --config.");
  }
  add_measurement(page, summary_of(log), predicted);
  if (predicted) add_prediction(page, *predicted);
  if (configuration) {
    page.section("Configuration");
    page.text(to_toml(*configuration));
  }
  return page.finish();
}

std::vector<std::string> plan_row(const JsonValue& plan) {
  return {plan.at("plan").string(),
          milliseconds(plan.at("step_seconds").number()),
          short_number(plan.at("tokens_per_second").number()),
          format_line("%.1f %%", 100 * plan.at("model_flops_utilization").number()),
          short_bytes(plan.at("peak_bytes").integer<std::int64_t>()),
          format_line("%.1f %%", 100 * plan.at("bubble").number()),
          plan.at("bound").string()};
}

std::string report_plans(const ReportArguments& arguments, const json& document, CommandContext& context) {
  const fs::path file(arguments.source);
  const JsonValue value(document, file);
  const std::vector<JsonValue> plans = value.at("plans").elements();
  if (plans.empty()) value.at("plans").refuse("the plans that `strata plan --json` prints");
  HtmlPage page(fmt::format("Plans for {}", value.at("cluster").string()));
  std::vector<std::vector<std::string>> rows;
  for (const JsonValue& plan : plans) rows.push_back(plan_row(plan));
  page.table({"plan", "step", "tokens/s", "MFU", "memory", "bubble", "bound by"}, rows);
  page.paragraph("The figures below are of the first plan.");
  // A plan has no table [cluster] of its own.
  const RunConfiguration configuration = parse_configuration(
      plans.front().at("configuration").string() + '\n' + value.at("cluster_file").string(), arguments.source);
  const auto predicted = add_programs(page, configuration, arguments.target.find(configuration), context);
  if (predicted) {
    page.section("Prediction");
    add_prediction(page, *predicted);
  }
  page.section("Configuration");
  page.text(to_toml(configuration));
  return page.finish();
}

/// The plans in a file, if it is one that `strata plan --json` has printed.
std::optional<json> plans_in(const std::string& source) {
  if (!fs::is_regular_file(source) || fs::path(source).extension() == ".jsonl") return std::nullopt;
  json document = read_json_file(source);
  if (!document.is_object() || !document.contains("plans")) return std::nullopt;
  return document;
}

int report(const ReportArguments& arguments, CommandContext& context) {
  require_other(arguments.output, arguments.source);
  const auto plans = plans_in(arguments.source);
  const std::string page = plans ? report_plans(arguments, *plans, context) : report_run(arguments, context);
  write_named_file(arguments.output, page);
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<ReportArguments>(
      app, context, "report", "Write one HTML page about a run, or about the plans for one", report);
  command
      ->add_option("RUN|PLAN", arguments->source,
                   "The output folder of a run or its log *.jsonl, or a file with what `strata plan --json` prints")
      ->required();
  command->add_option("OUT", arguments->output, "The page, a file that contains all that it shows")->required();
  command
      ->add_option("--config", arguments->configuration,
                   "The run's configuration; default: that of its newest checkpoint")
      ->type_name("FILE");
  add_target(*command, arguments->target);
}

}  // namespace strata::host

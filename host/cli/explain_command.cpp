#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "cli/run_report.hpp"
#include "compiler/program/step_variants.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "reports/parameter_estimate.hpp"
#include "reports/program_summary.hpp"
#include "train/inspection.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

/// Rows of the rank table in a text report. --json shows all ranks.
constexpr int kShownRanks = 16;

struct ExplainArguments {
  ConfigurationArguments configuration;
  TargetArguments target;
  bool json = false;
  bool graph = false;
  bool params_only = false;
  std::optional<int> program;
  TimelineFiles timelines;
};

ordered_json memory_json(const MemoryPlan& plan) {
  ordered_json kinds;
  for (const auto& [kind, bytes] : plan.bytes_at_peak) kinds[std::string(to_string(kind))] = bytes;
  return kinds;
}

ordered_json to_json(const Inspection& inspection, const PipelineReport& pipeline) {
  const Compiled& training = inspection.programs.training;
  ordered_json mesh = ordered_json::array();
  for (const MeshAxis& axis : training.mesh.axes()) mesh.push_back({{"axis", axis.name}, {"size", axis.size}});
  ordered_json ranks = ordered_json::array();
  for (int rank = 0; rank < training.mesh.rank_count(); ++rank) {
    ranks.push_back({{"rank", rank},
                     {"coordinates", training.mesh.coordinates(rank)},
                     {"class", training.class_of_rank[static_cast<std::size_t>(rank)]},
                     {"planned_peak_bytes", inspection.planned_peak_bytes[static_cast<std::size_t>(rank)]},
                     {"persistent_bytes", training.plan(rank).persistent_bytes},
                     {"bytes_at_peak", memory_json(training.plan(rank))}});
  }
  ordered_json communication = ordered_json::array();
  ordered_json by_steps = ordered_json::array();
  for (std::size_t i = 0; i < training.programs.size(); ++i) {
    for (const CommunicationSummary& each : average_communication(training.programs[i])) {
      communication.push_back(
          {{"class", i}, {"kind", each.kind}, {"axes", each.axes}, {"calls", each.calls}, {"bytes_sent", each.bytes}});
    }
    for (const StepVariant& each : step_variants(training.programs[i]).variants) {
      by_steps.push_back({{"class", i},
                          {"first_step", each.step},
                          {"steps", each.count},
                          {"bytes_sent", sent_bytes(training.programs[i], each.step)}});
    }
  }
  return {{"mesh", mesh},
          {"ranks", ranks},
          {"parameters", parameter_count(training.graph)},
          {"micro_batches", training.programs.front().micro_batches},
          {"communication", communication},
          {"communication_by_steps", by_steps},
          {"offload", offload_json(inspection.programs)},
          {"pipeline", pipeline_json(pipeline)},
          {"flops_per_token", flops_per_token(training.graph, *inspection.setup.ops)},
          {"cluster", inspection.cluster ? ordered_json(inspection.cluster->name) : ordered_json()},
          {"device", inspection.device_text()},
          {"device_bytes", inspection.device_bytes},
          {"planned_checkpoint_bytes", inspection.planned_checkpoint_bytes},
          {"remarks", inspection.remarks}};
}

void print_mesh(std::ostream& out, const Inspection& inspection) {
  const Mesh& mesh = inspection.programs.training.mesh;
  out << "mesh        ";
  if (mesh.axes().empty()) out << "one rank";
  for (const MeshAxis& axis : mesh.axes()) out << axis.name << '=' << axis.size << ' ';
  out << "\ndevice      " << inspection.device_text() << ", " << short_bytes(inspection.device_bytes) << " per rank\n";
}

void print_model(std::ostream& out, const Inspection& inspection) {
  const Compiled& training = inspection.programs.training;
  const BatchSection& batch = inspection.setup.configuration.batch;
  const std::int64_t parameters = parameter_count(training.graph);
  out << fmt::format("parameters  {} ({})\n", parameters, short_number(static_cast<double>(parameters)))
      << fmt::format("batch       {} samples a step = {} micro-batches of {} on each of {} replica{}\n", batch.global,
                     training.programs.front().micro_batches, batch.micro, inspection.setup.stack.replicas,
                     inspection.setup.stack.replicas == 1 ? "" : "s")
      << fmt::format("arithmetic  {} FLOP per {}\n",
                     short_number(flops_per_token(training.graph, *inspection.setup.ops)), inspection.setup.unit);
}

/// The buffer kinds in the memory of any rank at its peak.
std::set<BufferKind> kinds_at_peak(const Compiled& compiled) {
  std::set<BufferKind> kinds;
  for (const MemoryPlan& plan : compiled.plans) {
    for (const auto& [kind, bytes] : plan.bytes_at_peak) kinds.insert(kind);
  }
  return kinds;
}

void print_ranks(std::ostream& out, const Inspection& inspection) {
  const Compiled& training = inspection.programs.training;
  const std::set<BufferKind> kinds = kinds_at_peak(training);
  out << "\nmemory planned, by rank (kinds at the step's fullest moment; the arena also holds alignment and gaps)\n"
      << "rank  coordinates       arena";
  for (const BufferKind kind : kinds) out << std::setw(15) << to_string(kind);
  out << '\n';
  const int shown = std::min(kShownRanks, training.mesh.rank_count());
  for (int rank = 0; rank < shown; ++rank) {
    std::string at;
    for (const auto& [axis, index] : training.mesh.coordinates(rank)) at += axis + std::to_string(index) + " ";
    out << std::left << std::setw(6) << rank << std::setw(12) << at << std::right << std::setw(11)
        << short_bytes(inspection.planned_peak_bytes[static_cast<std::size_t>(rank)]);
    const auto& bytes = training.plan(rank).bytes_at_peak;
    for (const BufferKind kind : kinds) {
      const auto found = bytes.find(kind);
      out << std::setw(15) << short_bytes(found == bytes.end() ? 0 : found->second);
    }
    out << '\n';
  }
  if (shown < training.mesh.rank_count()) out << "… " << training.mesh.rank_count() - shown << " more\n";
  const auto& copies = inspection.planned_checkpoint_bytes;
  out << "host memory to write checkpoints, of the rank with most: " << short_bytes(*std::ranges::max_element(copies))
      << '\n';
}

void print_communication(std::ostream& out, const Program& program, const std::string& whose) {
  const StepVariants steps = step_variants(program);
  const bool varies = steps.variants.size() > 1;
  const auto summaries = average_communication(program);
  out << "\ncommunication of a step, " << whose;
  if (varies) out << ", on average over " << steps.period << " steps";
  out << '\n';
  if (summaries.empty()) {
    out << "none\n";
    return;
  }
  out << "kind            axes          calls     bytes sent\n";
  for (const CommunicationSummary& each : summaries) {
    out << std::left << std::setw(16) << each.kind << std::setw(12) << each.axes << std::right << std::setw(7)
        << each.calls << std::setw(15) << short_bytes(std::llround(each.bytes)) << '\n';
  }
  if (!varies) return;
  for (const StepVariant& each : steps.variants) {
    out << steps.describe(each) << ": " << short_bytes(std::llround(sent_bytes(program, each.step))) << '\n';
  }
}

/// Prints the communication of every class of ranks.
void print_communication(std::ostream& out, const Compiled& compiled) {
  const std::vector<int>& classes = compiled.class_of_rank;
  for (std::size_t i = 0; i < compiled.programs.size(); ++i) {
    const auto first = std::ranges::find(classes, static_cast<int>(i));
    const auto others = std::ranges::count(classes, static_cast<int>(i)) - 1;
    std::string whose = "a rank";
    if (compiled.programs.size() > 1) {
      whose = fmt::format("rank {}", first - classes.begin());
      if (others > 0) whose += fmt::format(" and {} like it", others);
    }
    print_communication(out, compiled.programs[i], whose);
  }
}

ordered_json estimate_json(const ParameterEstimate& estimate, const Inspection& inspection) {
  ordered_json rows = ordered_json::array();
  for (const auto& [name, formula, bytes] : estimate.rows) {
    rows.push_back({{"name", name}, {"formula", formula}, {"bytes", bytes}});
  }
  return {{"parameters", estimate.parameters},
          {"largest_layer", estimate.largest_layer},
          {"devices", inspection.programs.training.mesh.rank_count()},
          {"estimates", rows},
          {"planned_peak_bytes", inspection.planned_peak_bytes}};
}

void print_estimate(std::ostream& out, const ParameterEstimate& estimate, const Inspection& inspection) {
  constexpr double kGibibyte = 1024.0 * 1024 * 1024;
  const auto& peaks = inspection.planned_peak_bytes;
  out << fmt::format("P {} parameters, L {} of them in the largest layer, N {} devices\n\n", estimate.parameters,
                     estimate.largest_layer, inspection.programs.training.mesh.rank_count())
      << fmt::format("{:<50}{:<14}{:>10}\n", "estimate of a device's memory by DeepSpeed", "formula", "GiB");
  for (const auto& [name, formula, bytes] : estimate.rows) {
    out << fmt::format("{:<50}{:<14}{:>10.3f}\n", name, formula, bytes / kGibibyte);
  }
  out << fmt::format("{:<64}{:>10.3f}\n", "planned by Strata for this configuration, with all that a step needs",
                     static_cast<double>(*std::ranges::max_element(peaks)) / kGibibyte);
}

int explain(const ExplainArguments& arguments, CommandContext& context) {
  const RunConfiguration configuration = arguments.configuration.load();
  const Inspection inspection = inspect(configuration, context.plugins(), arguments.target.find(configuration));
  const Compiled& training = inspection.programs.training;
  const bool draws = !arguments.timelines.svg.empty() || !arguments.timelines.trace.empty();
  const PipelineReport pipeline = report_pipeline(inspection, draws);
  if (arguments.params_only) {
    const ParameterEstimate estimate = estimate_parameters(training.graph, training.mesh.rank_count());
    if (arguments.json) {
      write_json(context.out, estimate_json(estimate, inspection));
    } else {
      print_estimate(context.out, estimate, inspection);
    }
  } else if (arguments.graph) {
    context.out << to_string(training.graph);
  } else if (arguments.program) {
    if (*arguments.program < 0 || *arguments.program >= training.mesh.rank_count()) {
      throw ConfigurationError(fmt::format("--program: found rank {}; accepted: 0 to {}", *arguments.program,
                                           training.mesh.rank_count() - 1));
    }
    context.out << to_string(training.program(*arguments.program));
  } else if (arguments.json) {
    write_json(context.out, to_json(inspection, pipeline));
  } else {
    print_mesh(context.out, inspection);
    print_model(context.out, inspection);
    print_pipeline(context.out, pipeline);
    print_ranks(context.out, inspection);
    print_communication(context.out, training);
    print_offload(context.out, inspection.programs);
    for (const std::string& remark : inspection.remarks) context.out << "\nnote: " << remark << '\n';
  }
  write_timelines(arguments.timelines, pipeline, inspection.setup.configuration.run.name);
  return 0;
}

}  // namespace

void add_explain_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<ExplainArguments>(
      app, context, "explain", "Show mesh, memory, communication and arithmetic of a run", explain);
  add_configuration(*command, arguments->configuration);
  add_target(*command, arguments->target);
  command->add_flag("--json", arguments->json, "Print the report as JSON");
  CLI::Option* graph = command->add_flag("--graph", arguments->graph, "Print the logical graph instead");
  command->add_option("--program", arguments->program, "Print the program of this rank instead")
      ->type_name("RANK")
      ->excludes(graph);
  command
      ->add_flag("--params-only", arguments->params_only,
                 "Print what DeepSpeed's estimators count for parameters, gradients and optimizer states instead")
      ->excludes(graph);
  command->add_option("--timeline", arguments->timelines.svg, "Also write the timeline of all stages as an SVG picture")
      ->type_name("FILE.svg");
  command->add_option("--trace", arguments->timelines.trace, "Also write the timeline as trace events for Perfetto")
      ->type_name("FILE.json");
  command->add_flag("--equal-chunks", arguments->timelines.equal,
                    "Give all chunks the same duration instead of durations by FLOPs");
}

}  // namespace strata::host

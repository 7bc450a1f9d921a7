#include "cli/explain_command.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/configuration_arguments.hpp"
#include "compiler/program_summary.hpp"
#include "train/inspection.hpp"
#include "train/text_format.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

/// The rank table of a text report ends here; --json has all.
constexpr int kShownRanks = 16;

struct ExplainArguments {
  ConfigurationArguments configuration;
  bool json = false;
  bool graph = false;
  std::optional<int> program;
};

ordered_json memory_json(const MemoryPlan& plan) {
  ordered_json kinds;
  for (const auto& [kind, bytes] : plan.bytes_at_peak) kinds[std::string(to_string(kind))] = bytes;
  return kinds;
}

ordered_json to_json(const Inspection& inspection) {
  const Compiled& training = inspection.programs.training;
  ordered_json mesh = ordered_json::array();
  for (const MeshAxis& axis : training.mesh.axes()) mesh.push_back({{"axis", axis.name}, {"size", axis.size}});
  ordered_json ranks = ordered_json::array();
  for (int rank = 0; rank < training.mesh.rank_count(); ++rank) {
    ranks.push_back({{"rank", rank},
                     {"coordinates", training.mesh.coordinates(rank)},
                     {"planned_peak_bytes", inspection.planned_peak_bytes[static_cast<std::size_t>(rank)]},
                     {"bytes_at_peak", memory_json(training.plan(rank))}});
  }
  ordered_json communication = ordered_json::array();
  for (const CommunicationSummary& each : summarize_communication(training.programs.front())) {
    communication.push_back(
        {{"kind", each.kind}, {"axes", each.axes}, {"calls", each.calls}, {"bytes_sent", each.bytes}});
  }
  return {{"mesh", mesh},
          {"ranks", ranks},
          {"parameters", parameter_count(training.graph)},
          {"micro_batches", training.programs.front().micro_batches},
          {"communication", communication},
          {"flops_per_token", flops_per_token(training.graph, *inspection.setup.ops)},
          {"device", inspection.device->description()},
          {"device_bytes", inspection.device_bytes}};
}

void print_mesh(std::ostream& out, const Inspection& inspection) {
  const Mesh& mesh = inspection.programs.training.mesh;
  out << "mesh        ";
  if (mesh.axes().empty()) out << "one rank";
  for (const MeshAxis& axis : mesh.axes()) out << axis.name << '=' << axis.size << ' ';
  out << "\ndevice      " << inspection.device->description() << ", " << short_bytes(inspection.device_bytes)
      << " a rank\n";
}

void print_model(std::ostream& out, const Inspection& inspection) {
  const Compiled& training = inspection.programs.training;
  const BatchSection& batch = inspection.setup.configuration.batch;
  out << "parameters  " << parameter_count(training.graph) << " ("
      << short_number(static_cast<double>(parameter_count(training.graph))) << ")\n"
      << "batch       " << batch.global << " sequences a step = " << training.programs.front().micro_batches
      << " micro-batches of " << batch.micro << " on each of " << inspection.setup.replicas
      << (inspection.setup.replicas == 1 ? " replica\n" : " replicas\n") << "arithmetic  "
      << short_number(flops_per_token(training.graph, *inspection.setup.ops)) << " FLOP a token\n";
}

void print_ranks(std::ostream& out, const Inspection& inspection) {
  const Compiled& training = inspection.programs.training;
  out << "\nmemory planned, by rank (kinds at the step's fullest moment; the arena also holds alignment and gaps)\n"
      << "rank  coordinates       arena";
  for (const auto& [kind, bytes] : training.plans.front().bytes_at_peak) out << std::setw(15) << to_string(kind);
  out << '\n';
  const int shown = std::min(kShownRanks, training.mesh.rank_count());
  for (int rank = 0; rank < shown; ++rank) {
    std::string at;
    for (const auto& [axis, index] : training.mesh.coordinates(rank)) at += axis + std::to_string(index) + " ";
    out << std::left << std::setw(6) << rank << std::setw(12) << at << std::right << std::setw(11)
        << short_bytes(inspection.planned_peak_bytes[static_cast<std::size_t>(rank)]);
    for (const auto& [kind, bytes] : training.plan(rank).bytes_at_peak) out << std::setw(15) << short_bytes(bytes);
    out << '\n';
  }
  if (shown < training.mesh.rank_count()) out << "… " << training.mesh.rank_count() - shown << " more\n";
}

void print_communication(std::ostream& out, const Inspection& inspection) {
  const auto summaries = summarize_communication(inspection.programs.training.programs.front());
  out << "\ncommunication of a step, a rank\n";
  if (summaries.empty()) {
    out << "none\n";
    return;
  }
  out << "kind            axes          calls     bytes sent\n";
  for (const CommunicationSummary& each : summaries) {
    out << std::left << std::setw(16) << each.kind << std::setw(12) << each.axes << std::right << std::setw(7)
        << each.calls << std::setw(15) << short_bytes(std::llround(each.bytes)) << '\n';
  }
}

int explain(const ExplainArguments& arguments, CommandContext& context) {
  const Inspection inspection = inspect(arguments.configuration.load(), context.plugins());
  const Compiled& training = inspection.programs.training;
  if (arguments.graph) {
    context.out << to_string(training.graph);
  } else if (arguments.program) {
    if (*arguments.program < 0 || *arguments.program >= training.mesh.rank_count()) {
      throw ConfigurationError("--program: found rank " + std::to_string(*arguments.program) + "; accepted: 0 to " +
                               std::to_string(training.mesh.rank_count() - 1));
    }
    context.out << to_string(training.program(*arguments.program));
  } else if (arguments.json) {
    context.out << to_json(inspection).dump(2) << '\n';
  } else {
    print_mesh(context.out, inspection);
    print_model(context.out, inspection);
    print_ranks(context.out, inspection);
    print_communication(context.out, inspection);
  }
  return 0;
}

}  // namespace

void add_explain_command(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command = app.add_subcommand("explain", "Show mesh, memory, communication and arithmetic of a run");
  arguments->configuration.add_to(*command);
  command->add_flag("--json", arguments->json, "Print the report as JSON");
  command->add_flag("--graph", arguments->graph, "Print the logical graph instead");
  command->add_option("--program", arguments->program, "Print the program of this rank instead")->type_name("RANK");
  command->callback(
      [arguments, &context] { context.action = [arguments, &context] { return explain(*arguments, context); }; });
}

}  // namespace strata::host

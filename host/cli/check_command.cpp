#include "cli/check_command.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/configuration_arguments.hpp"
#include "cli/exit_codes.hpp"
#include "cli/offload_report.hpp"
#include "train/data/text_format.hpp"
#include "train/run/inspection.hpp"

namespace strata::host {
namespace {

struct CheckArguments {
  ConfigurationArguments configuration;
  bool json = false;
};

int report_refusal(CommandContext& context, bool json, const std::string& reason) {
  if (json) {
    context.out << nlohmann::ordered_json{{"ok", false}, {"error", reason}}.dump(2) << '\n';
  } else {
    context.messages << "error: " << reason << '\n';
  }
  return kRefused;
}

int report_acceptance(CommandContext& context, bool json, const Inspection& inspection) {
  const Mesh& mesh = inspection.setup.mesh;
  const auto& planned = inspection.planned_peak_bytes;
  const std::int64_t largest = *std::max_element(planned.begin(), planned.end());
  if (json) {
    context.out << nlohmann::ordered_json{{"ok", true},
                                          {"ranks", mesh.rank_count()},
                                          {"planned_peak_bytes", planned},
                                          {"device_bytes", inspection.device_bytes},
                                          {"offload", offload_json(inspection.programs)}}
                       .dump(2)
                << '\n';
  } else {
    context.out << "ok: " << mesh.rank_count() << (mesh.rank_count() == 1 ? " rank" : " ranks")
                << "; communication matches and cannot deadlock; " << short_bytes(largest) << " of "
                << short_bytes(inspection.device_bytes) << describe_offload(inspection.programs) << " a rank\n";
  }
  return 0;
}

int check(const CheckArguments& arguments, CommandContext& context) {
  try {
    const Inspection inspection = inspect(arguments.configuration.load(), context.plugins());
    if (const auto fault = find_fault(inspection)) return report_refusal(context, arguments.json, *fault);
    return report_acceptance(context, arguments.json, inspection);
  } catch (const ConfigurationError& error) {
    return report_refusal(context, arguments.json, error.what());
  }
}

}  // namespace

void add_check_command(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command = app.add_subcommand("check", "Say whether a run can work, without running it; exit code 0 or 2");
  arguments->configuration.add_to(*command);
  command->add_flag("--json", arguments->json, "Print the verdict as JSON");
  command->callback(
      [arguments, &context] { context.action = [arguments, &context] { return check(*arguments, context); }; });
}

}  // namespace strata::host

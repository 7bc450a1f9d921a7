#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "cli/run_report.hpp"
#include "files/exit_codes.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "tokenizers/checkpoint_tokenizer.hpp"
#include "train/inspection.hpp"

namespace strata::host {
namespace {

struct CheckArguments {
  ConfigurationArguments configuration;
  TargetArguments target;
  bool json = false;
  bool profile = false;
};

int report_acceptance(CommandContext& context, bool json, const Inspection& inspection) {
  const Mesh& mesh = inspection.setup.stack.mesh;
  const auto& planned = inspection.planned_peak_bytes;
  const auto& copies = inspection.planned_checkpoint_bytes;
  const std::int64_t largest = *std::ranges::max_element(planned);
  if (json) {
    write_json(context.out, {{"ok", true},
                             {"ranks", mesh.rank_count()},
                             {"device", inspection.device_text()},
                             {"planned_peak_bytes", planned},
                             {"device_bytes", inspection.device_bytes},
                             {"planned_checkpoint_bytes", inspection.planned_checkpoint_bytes},
                             {"offload", offload_json(inspection.programs)},
                             {"remarks", inspection.remarks}});
  } else {
    context.out << "ok: " << mesh.rank_count() << (mesh.rank_count() == 1 ? " rank" : " ranks")
                << "; communication matches and cannot deadlock; " << short_bytes(largest) << " of "
                << short_bytes(inspection.device_bytes) << describe_offload(inspection.programs) << " per rank"
                << (inspection.cluster ? " on " + inspection.device_text() : "") << "; "
                << short_bytes(*std::ranges::max_element(copies)) << " of host memory per rank to write checkpoints\n";
    for (const std::string& remark : inspection.remarks) context.out << "note: " << remark << '\n';
  }
  return 0;
}

int check(const CheckArguments& arguments, CommandContext& context, PhaseTimes* times) {
  try {
    const RunConfiguration configuration = arguments.configuration.load();
    const InspectionTarget target = arguments.target.find(configuration);
    const Inspection inspection = inspect(configuration, context.plugins(), target, times);
    if (!target.vocab) static_cast<void>(named_tokenizer(inspection.setup));
    if (const auto fault = find_fault(inspection)) return refuse_run(context, arguments.json, *fault, kRefused);
    enter(times, "connection");
    require_connection(inspection);
    return report_acceptance(context, arguments.json, inspection);
  } catch (...) {
    return refuse_run(context, arguments.json, current_exception_text(), exit_code_of_exception());
  }
}

int check(const CheckArguments& arguments, CommandContext& context) {
  if (!arguments.profile) return check(arguments, context, nullptr);
  PhaseTimes times;
  const int exit_code = check(arguments, context, &times);
  for (const PhaseTimes::Phase& phase : times.end()) {
    context.messages << fmt::format("{:8.3f} s {:6.0f} MiB  {}\n", phase.seconds,
                                    static_cast<double>(phase.bytes) / (1 << 20), phase.name);
  }
  return exit_code;
}

}  // namespace

void add_check_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<CheckArguments>(
      app, context, "check",
      "Check that a run can work, without running it; exit code 0 if it can, 2 if not, 1 if a file, "
      "a machine or a plugin fails",
      check);
  add_configuration(*command, arguments->configuration);
  add_target(*command, arguments->target);
  command->add_flag("--json", arguments->json, "Print the verdict as JSON");
  command->add_flag("--profile", arguments->profile,
                    "Print the processor time of each phase, and by how much it raised the peak of memory");
}

}  // namespace strata::host

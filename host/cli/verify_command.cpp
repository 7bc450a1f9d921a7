#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/configuration_arguments.hpp"
#include "cli/exit_codes.hpp"
#include "cli/json_output.hpp"
#include "cli/number_check.hpp"
#include "cli/verify_ops_report.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

struct VerifyArguments {
  ConfigurationArguments configuration;
  VerificationOptions options;
  double tolerance = 1e-9;
  bool json = false;
  bool ops = false;
};

nlohmann::ordered_json to_json(const Verification& verification, double tolerance, bool holds) {
  const StackDifference& difference = verification.difference;
  return {{"ok", holds},
          {"ranks", verification.mesh.rank_count()},
          {"steps", verification.stack.losses.size()},
          {"tolerance", tolerance},
          {"loss", difference.loss},
          {"grad_norm", difference.gradient_norm},
          {"evaluation", difference.evaluation},
          {"generation", verification.generation.missing.empty() ? nlohmann::json(verification.generation.difference)
                                                                 : nlohmann::json()},
          {"parameters", difference.parameter},
          {"worst_parameter", difference.worst_parameter},
          {"replicas", verification.stack.replica_difference},
          {"excluded_parameters", difference.excluded},
          {"missed_steps", verification.missed},
          {"planned_peak_bytes", verification.stack.planned_peak_bytes},
          {"arena_peak_bytes", verification.stack.arena_peak_bytes}};
}

void print(std::ostream& out, const Verification& verification, double tolerance, bool holds) {
  const StackDifference& difference = verification.difference;
  out << verification.mesh.rank_count() << " ranks against one, " << verification.stack.losses.size()
      << " steps in f64; largest relative difference of\n"
      << std::scientific << std::setprecision(2) << "  loss           " << difference.loss << '\n'
      << "  gradient norm  " << difference.gradient_norm << '\n'
      << "  evaluation     " << difference.evaluation << '\n'
      << "  parameters     " << difference.parameter << "  (" << difference.worst_parameter << ")\n"
      << "  replicas       " << verification.stack.replica_difference
      << "  (absolute, among ranks that hold the same)\n";
  if (verification.generation.missing.empty()) {
    out << "  generation     " << verification.generation.difference
        << "  (scores of next tokens from the cache, against whole contexts)\n";
  }
  if (!difference.excluded.empty()) {
    out << "left out, since their true gradient is zero: " << join(difference.excluded, ", ") << '\n';
  }
  for (const std::string& missed : verification.missed) {
    out << "not executed: " << missed << "; a smaller period may help\n";
  }
  out << (holds ? "equal within " : "NOT equal within ") << tolerance << '\n' << std::defaultfloat;
}

int verify_ops(const VerifyArguments& arguments, CommandContext& context) {
  const OpVerification verification = verify_ops(arguments.configuration.load(), context.plugins(), arguments.options);
  if (arguments.json) {
    write_json(context.out, ops_json(verification));
  } else {
    print_ops(context.out, verification);
  }
  return verification.holds() ? 0 : kFailed;
}

int verify(const VerifyArguments& arguments, CommandContext& context) {
  if (arguments.ops) return verify_ops(arguments, context);
  const Verification verification = verify_stack(arguments.configuration.load(), context.plugins(), arguments.options);
  const bool holds = verification.difference.worst() <= arguments.tolerance &&
                     verification.generation.difference <= arguments.tolerance &&
                     verification.stack.replica_difference <= arguments.tolerance;
  // One process of several reports.
  if (verification.stack.first_rank != 0) return holds ? 0 : kFailed;
  if (arguments.json) {
    write_json(context.out, to_json(verification, arguments.tolerance, holds));
  } else {
    print(context.out, verification, arguments.tolerance, holds);
  }
  return holds ? 0 : kFailed;
}

}  // namespace

void add_verify_command(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command =
      app.add_subcommand("verify",
                         "Prove in float64 that the stack trains as one rank would; exit code 0 if it does, 1 if "
                         "not, 2 for a wrong configuration");
  arguments->configuration.add_to(*command);
  command->add_flag("--json", arguments->json, "Print the differences as JSON");
  command->add_flag("--ops", arguments->ops,
                    "Check the ops instead: gradients against finite differences in float64, and the device's kernels "
                    "against the reference");
  command->add_option("--tolerance", arguments->tolerance, "Largest relative difference that passes, default 1e-9")
      ->check(number_from(1e-20));
  command->add_option("--device", arguments->options.device,
                      "Plugin of the stack's devices, default reference, with --ops the configured one; the single "
                      "rank always uses the reference device");
  command->add_option("--communicator", arguments->options.communicator,
                      "Plugin of the stack's communicator, default local. With one that joins processes, such as gloo, "
                      "a launcher starts this command once for each rank");
  command->add_flag("--full", arguments->options.full,
                    "Keep the configuration's sizes instead of the smallest ones with the same divisibility");
  command->callback(
      [arguments, &context] { context.action = [arguments, &context] { return verify(*arguments, context); }; });
}

}  // namespace strata::host

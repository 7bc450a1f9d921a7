#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/exit_codes.hpp"
#include "files/json.hpp"
#include "files/progress_bar.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

/// A number as JSON, or a string for NaN and infinity, which JSON lacks.
ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(std::isnan(value) ? "nan" : "infinite");
}

/// Width of a column: the longest name of an op in `checks` and two spaces.
template <class Check>
int op_column(const std::vector<Check>& checks) {
  std::size_t width = 0;
  for (const Check& each : checks) width = std::max(width, each.op.size());
  return static_cast<int>(width) + 2;
}

void print_gradients(std::ostream& out, const std::vector<GradientCheck>& gradients) {
  out << "gradients in f64 against finite differences: largest relative difference, accepted "
      << GradientCheck::kTolerance << '\n';
  const int column = op_column(gradients);
  for (const GradientCheck& each : gradients) {
    out << (each.holds() ? "  ok     " : "  WRONG  ") << std::left << std::setw(column) << each.op << std::right;
    if (!each.fault.empty()) {
      out << each.fault;
    } else {
      out << each.error << "  operand " << each.operand << " " << each.operand_type;
    }
    out << "  ('" << each.node << "', " << each.origin << ")\n";
  }
}

void print_kernels(std::ostream& out, const OpVerification& verification) {
  out << "kernels of device '" << verification.device
      << "' against the reference: largest difference, as a part of what rounding explains\n";
  const int column = op_column(verification.kernels);
  for (const KernelCheck& each : verification.kernels) {
    out << (each.holds() ? "  ok     " : "  WRONG  ") << std::left << std::setw(column) << each.op << std::right;
    if (!each.fault.empty()) {
      out << each.fault;
    } else {
      out << each.error << "  " << each.types << "; " << each.worst << "; " << each.launches << " launches";
    }
    out << "  (" << each.origin << ")\n";
  }
}

void print_ops(std::ostream& out, const OpVerification& verification) {
  out << std::scientific << std::setprecision(2);
  print_gradients(out, verification.gradients);
  print_kernels(out, verification);
  out << std::defaultfloat;
  std::set<std::string> wrong;
  for (const GradientCheck& each : verification.gradients) {
    if (!each.holds()) wrong.insert("the gradient of '" + each.op + "' of " + each.origin);
  }
  for (const KernelCheck& each : verification.kernels) {
    if (!each.holds()) wrong.insert("the kernel of '" + each.op + "' of " + each.origin);
  }
  if (wrong.empty()) {
    out << "all gradients and kernels are right\n";
    return;
  }
  for (const std::string& each : wrong) out << "WRONG: " << each << '\n';
}

ordered_json ops_json(const OpVerification& verification) {
  ordered_json gradients = ordered_json::array();
  for (const GradientCheck& each : verification.gradients) {
    gradients.push_back({{"ok", each.holds()},
                         {"op", each.op},
                         {"origin", each.origin},
                         {"node", each.node},
                         {"operand", each.operand},
                         {"type", each.operand_type},
                         {"error", number(each.error)},
                         {"fault", each.fault}});
  }
  ordered_json kernels = ordered_json::array();
  for (const KernelCheck& each : verification.kernels) {
    kernels.push_back({{"ok", each.holds()},
                       {"op", each.op},
                       {"types", each.types},
                       {"origin", each.origin},
                       {"launches", each.launches},
                       {"error", number(each.error)},
                       {"worst", each.worst},
                       {"fault", each.fault}});
  }
  return {{"ok", verification.holds()},
          {"device", verification.device},
          {"gradient_tolerance", GradientCheck::kTolerance},
          {"gradients", gradients},
          {"kernels", kernels}};
}

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
          {"metrics", difference.metrics},
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
      << "  evaluation     " << difference.evaluation << '\n';
  if (!verification.single.metrics.empty()) out << "  metrics        " << difference.metrics << '\n';
  out << "  parameters     " << difference.parameter << "  (" << difference.worst_parameter << ")\n"
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
  const OpVerification verification = [&] {
    ProgressBar bar(context.messages);
    VerificationOptions options = arguments.options;
    options.progress = [&](const std::string& what, std::size_t done, std::size_t all) {
      if (!bar.is_due()) return;
      bar.show(static_cast<double>(done) / static_cast<double>(all), fmt::format("{} of {} {}", done, all, what));
    };
    return verify_ops(arguments.configuration.load(), context.plugins(), options);
  }();
  if (arguments.json) {
    write_json(context.out, ops_json(verification));
  } else {
    print_ops(context.out, verification);
  }
  return verification.holds() ? 0 : kFailed;
}

int verify(const VerifyArguments& arguments, CommandContext& context) {
  if (arguments.ops) return verify_ops(arguments, context);
  VerificationOptions options = arguments.options;
  options.compiles_full = !options.full;
  options.generates = true;
  const Verification verification = verify_stack(arguments.configuration.load(), context.plugins(), options);
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
  const auto [command, arguments] = add_command<VerifyArguments>(
      app, context, "verify",
      "Prove in float64 that the stack trains as one rank would; exit code 0 if it does, 1 if "
      "not, 2 for a wrong configuration",
      verify);
  add_configuration(*command, arguments->configuration);
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
}

}  // namespace strata::host

#include "cli/command_arguments.hpp"

#include <limits>
#include <sstream>

#include "cluster/cluster_file.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::max();

std::string accepted_numbers(double low, double high) {
  std::ostringstream text;
  text.precision(15);
  if (high < kUnlimited) {
    text << low << " to " << high;
  } else {
    text << "at least " << low;
  }
  return text.str();
}

}  // namespace

CLI::Option* add_overrides(CLI::App& command, std::vector<std::string>& overrides, const std::string& description) {
  return command.add_option("--set", overrides, description)->type_name("KEY=VALUE")->allow_extra_args(false);
}

void add_configuration(CLI::App& command, ConfigurationArguments& arguments, bool is_required) {
  command.add_option("CONFIG", arguments.file, "The run's TOML file")->required(is_required);
  add_overrides(command, arguments.overrides, "Overrides a key, as in --set model.layers=2; may be repeated");
  command.footer("Keys of the configuration: strata help configuration");
}

InspectionTarget TargetArguments::find(const RunConfiguration& configuration) const {
  const ClusterRequest request{.nodes = nodes};
  InspectionTarget target{.vocab = vocab};
  if (!cluster.empty()) {
    target.cluster = load_cluster(cluster, request);
  } else if (configuration.cluster.table != nullptr) {
    target.cluster = read_cluster(*configuration.cluster.table, request);
  } else if (nodes) {
    throw ConfigurationError("--nodes: there is no cluster; accepted with --cluster, or with a table [cluster]");
  }
  return target;
}

InspectionTarget TargetArguments::find_with_cluster(const RunConfiguration& configuration) const {
  InspectionTarget target = find(configuration);
  if (target.cluster) return target;
  throw ConfigurationError(
      "there is no cluster; accepted: --cluster FILE|NAME, or a table [cluster] in the configuration");
}

void add_target(CLI::App& command, TargetArguments& arguments) {
  command
      .add_option(
          "--cluster", arguments.cluster,
          "The machines that the run is meant for, which need not be here: a file, or a published name such as "
          "dgx-h100. Default: the configuration's [cluster]. Without either, check and explain use this machine")
      ->type_name("FILE|NAME");
  command.add_option("--nodes", arguments.nodes, "Number of the cluster's nodes, instead of its file's")
      ->type_name("N")
      ->check(number_from(1));
  command
      .add_option("--vocab", arguments.vocab,
                  "Number of different tokens. The data is then not opened, and need not be here")
      ->type_name("N")
      ->check(number_from(1));
}

void add_training(CLI::App& command, TrainArguments& arguments) {
  add_configuration(command, arguments.configuration);
  command
      .add_option("--steps", arguments.steps,
                  "Train up to this step. The schedules keep their length, which is run.steps")
      ->check(number_from(1));
  command
      .add_option("--log-json", arguments.log_json,
                  "Write a log with one JSON object per line: steps, evaluations, a summary")
      ->type_name("FILE");
  CLI::Option* resume_option =
      command
          .add_option(
              "--resume", arguments.resume,
              "Continue from a checkpoint, or from the newest whole one of a run's output folder; \"auto\" starts "
              "the run or continues it")
          ->type_name("DIR");
  command.add_flag("--overwrite", arguments.overwrite, "Remove the checkpoints in the output folder and start anew")
      ->excludes(resume_option);
  command
      .add_option("--accept-changed", arguments.accept_changed,
                  "Settings in which a resumed run may differ from its checkpoint: seed, batch, model, data")
      ->type_name("SETTING")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--stop-after", arguments.stop_after,
                  "Write a checkpoint and end with exit code 75 after this time: 3h50m")
      ->type_name("TIME");
  command
      .add_option("--stop-before-job-end", arguments.stop_before_job_end,
                  "Stop likewise this long before the end of the Slurm job: 10m")
      ->type_name("TIME");
}

void add_checkpoint(CLI::App& command, std::string& checkpoint) {
  command.add_option("CHECKPOINT", checkpoint, "A checkpoint, or the output folder of a run for its last one")
      ->required();
}

void add_average(CLI::App& command, bool& of_average, const std::string& use) {
  command.add_flag("--average", of_average,
                   use + " the moving average of the weights, which a run with [optimizer.average] keeps");
}

CLI::Validator number_between(double low, double high) {
  const std::string accepted = accepted_numbers(low, high);
  return {[=](const std::string& argument) {
            double value = 0;
            // A comparison with NaN is false.
            const bool is_number = CLI::detail::lexical_cast(argument, value);
            if (is_number && value >= low && value <= high) return std::string();
            return "found " + argument + "; accepted: " + accepted;
          },
          accepted};
}

CLI::Validator number_from(double low) { return number_between(low, kUnlimited); }

}  // namespace strata::host

#include "cli/train_arguments.hpp"

#include "cli/number_check.hpp"

namespace strata::host {

void TrainArguments::add_to(CLI::App& command) {
  configuration.add_to(command);
  command.add_option("--steps", steps, "Train up to this step. The schedules keep their length, which is run.steps")
      ->check(number_from(1));
  command
      .add_option("--log-json", log_json, "Write a log with one JSON object per line: steps, evaluations, a summary")
      ->type_name("FILE");
  CLI::Option* resume_option =
      command
          .add_option(
              "--resume", resume,
              "Continue from a checkpoint, or from the newest whole one of a run's output folder; \"auto\" starts "
              "the run or continues it")
          ->type_name("DIR");
  command.add_flag("--overwrite", overwrite, "Remove the checkpoints in the output folder and start anew")
      ->excludes(resume_option);
  command
      .add_option("--accept-changed", accept_changed,
                  "Settings in which a resumed run may differ from its checkpoint: seed, batch, model, data")
      ->type_name("SETTING")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--stop-after", stop_after, "Write a checkpoint and end with exit code 75 after this time: 3h50m")
      ->type_name("TIME");
  command
      .add_option("--stop-before-job-end", stop_before_job_end,
                  "Stop likewise this long before the end of the Slurm job: 10m")
      ->type_name("TIME");
}

std::vector<std::string> TrainArguments::overrides() const {
  std::vector<std::string> given;
  const auto add = [&](const std::string& key, const OptionValue& value) {
    given.push_back("run." + key + "=" + to_string(value));
  };
  if (steps) add("stop_at_step", *steps);
  if (!resume.empty()) add("resume", resume);
  if (!accept_changed.empty()) add("accept_changed", accept_changed);
  if (!stop_after.empty()) add("stop_after", stop_after);
  if (!stop_before_job_end.empty()) add("stop_before_job_end", stop_before_job_end);
  return given;
}

RunConfiguration TrainArguments::load() const {
  ConfigurationArguments given = configuration;
  for (const std::string& each : overrides()) given.overrides.push_back(each);
  return given.load();
}

std::vector<std::string> TrainArguments::words() const {
  std::vector<std::string> words{configuration.file};
  for (const std::string& override : configuration.overrides) words.insert(words.end(), {"--set", override});
  for (const std::string& override : overrides()) words.insert(words.end(), {"--set", override});
  if (!log_json.empty()) words.insert(words.end(), {"--log-json", log_json});
  if (overwrite) words.emplace_back("--overwrite");
  return words;
}

}  // namespace strata::host

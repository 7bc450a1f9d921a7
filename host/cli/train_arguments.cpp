#include "cli/train_arguments.hpp"

namespace strata::host {

void TrainArguments::add_to(CLI::App& command) {
  configuration.add_to(command);
  command.add_option("--steps", steps, "Train up to this step instead of run.steps")->check(CLI::PositiveNumber);
  command
      .add_option("--log-json", log_json, "Write a log with one JSON object per line: steps, evaluations, a summary")
      ->type_name("FILE");
  command.add_option("--resume", resume, "Continue from a checkpoint, or from the last one of a run's output folder")
      ->type_name("DIR");
}

RunConfiguration TrainArguments::load() const {
  ConfigurationArguments given = configuration;
  if (steps) given.overrides.push_back("run.steps=" + std::to_string(*steps));
  return given.load();
}

std::vector<std::string> TrainArguments::words() const {
  std::vector<std::string> words{configuration.file};
  for (const std::string& override : configuration.overrides) words.insert(words.end(), {"--set", override});
  if (steps) words.insert(words.end(), {"--steps", std::to_string(*steps)});
  if (!log_json.empty()) words.insert(words.end(), {"--log-json", log_json});
  if (!resume.empty()) words.insert(words.end(), {"--resume", resume});
  return words;
}

}  // namespace strata::host

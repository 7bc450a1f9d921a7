#include "launch/train_arguments.hpp"

namespace strata::host {

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

#include "train/resume_check.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The configuration in a checkpoint. Empty if this version of Strata cannot read it.
std::optional<RunConfiguration> stored_configuration(const CheckpointReader& checkpoint) {
  try {
    return parse_configuration(checkpoint.run().configuration, checkpoint.directory().string());
  } catch (const ConfigurationError&) {
    return std::nullopt;
  }
}

class ResumeCheck {
 public:
  ResumeCheck(const RunSetup& setup, const CheckpointReader& checkpoint)
      : configuration_(setup.configuration),
        checkpoint_("checkpoint '" + checkpoint.directory().string() + "'"),
        state_(checkpoint.run()) {}

  void vocabulary(const DataSource& source) const {
    if (state_.vocabulary == source.vocabulary()) return;
    throw configuration_.error("data", checkpoint_ + " was trained on another vocabulary than the one of this data");
  }

  void data(const DataSource& source) const {
    const std::optional<DataState>& stored = state_.data;
    const std::string fingerprint = source.fingerprint();
    if (!stored || stored->fingerprint == fingerprint || accepts("data") || configuration_.data.allow_changed) return;
    throw configuration_.error(
        "data", checkpoint_ + " was trained on data with the fingerprint " + stored->fingerprint + " (" +
                    stored->description + "); found " + fingerprint + " (" + source.description() +
                    "); accepted: the same data, or data.allow_changed = true to continue on other data");
  }

  void number(const char* setting, const char* path, std::uint64_t stored, std::uint64_t found) const {
    if (stored != found) refuse(setting, path, std::to_string(stored), std::to_string(found));
  }

  void model(const PluginSection& stored) const {
    const PluginSection& found = configuration_.model;
    if (stored.plugin != found.plugin) refuse("model", "model.plugin", stored.plugin, found.plugin);
    for (const auto& [name, value] : found.options) {
      // A version of the model without this option wrote the checkpoint.
      const auto before = stored.options.find(name);
      if (before == stored.options.end()) continue;
      const std::string was = to_string(before->second);
      const std::string is = to_string(value);
      if (was != is) refuse("model", "model." + name, was, is);
    }
  }

 private:
  [[nodiscard]] bool accepts(const std::string& setting) const {
    const std::vector<std::string>& accepted = configuration_.run.accept_changed;
    return std::find(accepted.begin(), accepted.end(), setting) != accepted.end();
  }

  void refuse(const std::string& setting, const std::string& path, const std::string& stored,
              const std::string& found) const {
    if (accepts(setting)) return;
    throw configuration_.error(path, "found " + found + ", but " + checkpoint_ + " was trained with " + stored +
                                         "; accepted: " + stored + ", or run.accept_changed = [\"" + setting +
                                         "\"] to continue with another value");
  }

  const RunConfiguration& configuration_;
  std::string checkpoint_;
  const RunState& state_;
};

}  // namespace

void require_same_run(const RunSetup& setup, const DataSource& source, const CheckpointReader& checkpoint) {
  const ResumeCheck check(setup, checkpoint);
  check.vocabulary(source);
  check.number("seed", "run.seed", checkpoint.run().seed, setup.seed());
  if (const auto stored = stored_configuration(checkpoint)) {
    check.number("batch", "batch.global", static_cast<std::uint64_t>(stored->batch.global),
                 static_cast<std::uint64_t>(setup.configuration.batch.global));
    check.model(stored->model);
  }
  check.data(source);
}

std::optional<std::string> find_dropped(const CheckpointReader& checkpoint, const std::vector<CheckpointTensor>& plan) {
  const std::vector<std::string> dropped = checkpoint.dropped(plan);
  if (dropped.empty()) return std::nullopt;
  return "the checkpoint has gradients that were not sent yet, which this run drops: " +
         std::to_string(dropped.size()) + " tensors such as '" + dropped.front() + "'";
}

}  // namespace strata::host

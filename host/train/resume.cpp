#include "train/resume.hpp"

#include <exception>

#include "strata/error.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

/// The configuration in a checkpoint. Empty if this version of Strata cannot read it.
std::optional<RunConfiguration> stored_configuration(const CheckpointReader& checkpoint) {
  try {
    return checkpoint.configuration();
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
    return contains(accepted, setting);
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

/// Calls `restore` with what it writes with, and with what it calls after each tensor.
template <class Restore>
void together(Executor& executor, Agreement& agreement, const Restore& restore) {
  std::exception_ptr failure;
  try {
    restore([&](const BufferSlice& slice, const void* host) { executor.write(slice, host); },
            [&] { (void)agreement.largest(1); });
  } catch (...) {
    failure = std::current_exception();
  }
  while (agreement.largest(0) > 0) {
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void ResumeChoice::settle(Agreement& agreement, int rank, const std::function<void(const CheckpointReader*)>& begin) {
  const bool leads = rank == 0;
  // True if some rank has a failure, which the first rank then notes.
  const auto skips = [&](const std::string& failure) {
    const auto failed = static_cast<int>(agreement.largest(failure.empty() ? 0 : rank + 1)) - 1;
    if (failed < 0) return false;
    const std::string reason = agreement.text(failed == rank ? failure : "");
    if (leads) skipped_.push_back(reason);
    return true;
  };
  while (true) {
    const std::string path = agreement.text(leads ? offer() : "");
    if (path.empty()) return begin(nullptr);
    // No rank begins with a checkpoint that another process cannot open.
    if (skips(open(path))) continue;
    std::string failure;
    try {
      begin(reader_.get());
    } catch (const DamagedCheckpoint& error) {
      failure = error.what();
    }
    if (!skips(failure)) return;
  }
}

std::string ResumeChoice::offer() const {
  if (candidates_.empty()) return "";
  if (skipped_.size() < candidates_.size()) return candidates_[skipped_.size()].string();
  if (skipped_.size() == 1) throw RuntimeError(skipped_.front());
  throw RuntimeError("none of " + std::to_string(skipped_.size()) + " checkpoints is whole: " + join(skipped_, "; "));
}

std::string ResumeChoice::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (tried_ == path) return failure_;
  tried_ = path;
  failure_.clear();
  reader_.reset();
  try {
    reader_ = std::make_unique<CheckpointReader>(path);
  } catch (const Error& error) {
    failure_ = error.what();
  }
  return failure_;
}

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

std::optional<std::string> find_dropped(const CheckpointReader& checkpoint, const CheckpointPlan& plan) {
  const std::vector<std::string> dropped = checkpoint.dropped(plan);
  if (dropped.empty()) return std::nullopt;
  return "the checkpoint has gradients that were not sent yet, which this run drops: " +
         std::to_string(dropped.size()) + " tensors such as '" + dropped.front() + "'";
}

void restore_together(const CheckpointReader& checkpoint, Executor& executor, Agreement& agreement) {
  together(executor, agreement, [&](const WriteSlice& write, const std::function<void()>& restored) {
    checkpoint.restore(executor.program(), executor.rank(), write, DifferingReplicas::refuse, RestoredWeights::trained,
                       restored);
  });
}

void restore_values_together(const CheckpointReader& checkpoint, Executor& executor, Agreement& agreement) {
  together(executor, agreement, [&](const WriteSlice& write, const std::function<void()>& restored) {
    checkpoint.restore_values(executor.program(), executor.rank(), write, restored);
  });
}

}  // namespace strata::host

#include "train/run_folder.hpp"

#include <optional>
#include <random>
#include <sstream>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

std::string new_identity() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) {
    for (std::uint32_t bits = random(), digit = 0; digit < 8; ++digit, bits >>= 4U)
      text += "0123456789abcdef"[bits & 15U];
  }
  return text;
}

/// The first word of a small file. Empty if it is missing or is none, such as a pipe, whose opening would wait for a
/// writer.
std::string first_word(const fs::path& file) {
  constexpr std::size_t kLargest = 4096;
  std::string word;
  std::istringstream(read_small_file(file, kLargest)) >> word;
  return word;
}

bool is_identity(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// The identity in a checkpoint: "" if its version of Strata stored none. Empty if the manifest is damaged.
std::optional<std::string> identity_of(const fs::path& checkpoint) {
  try {
    return read_manifest(checkpoint / kManifestName).run.identity;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The output folder of a run that is about to start.
class OutputFolder {
 public:
  explicit OutputFolder(const RunConfiguration& configuration)
      : configuration_(configuration),
        output_(configuration.run.output),
        identity_(stored_identity(output_)),
        checkpoints_(checkpoints_in(output_ / "checkpoints")) {}

  [[nodiscard]] StartDecision overwrite() const { return {new_identity(), {}, true}; }

  [[nodiscard]] StartDecision start_anew() const {
    if (!checkpoints_.empty()) {
      throw refusal("holds checkpoints, the newest of step " + step_text(checkpoints_.front()) +
                    "; accepted: --resume auto to continue that run, another run.output, or --overwrite to remove them "
                    "and start anew");
    }
    return {new_identity(), {}, false};
  }

  [[nodiscard]] StartDecision start_or_continue() const {
    for (const fs::path& checkpoint : checkpoints_) {
      const std::optional<std::string> found = identity_of(checkpoint);
      const bool is_own = !identity_.empty() && (!found || found->empty() || *found == identity_);
      if (is_own) continue;
      throw refusal("holds '" + checkpoint.filename().string() + "' of " +
                    (found && !found->empty() ? "the run " + *found : "an unknown run") + ", but the folder is " +
                    (identity_.empty() ? missing_identity() : "of the run " + identity_) +
                    "; accepted: another run.output, --resume " + checkpoint.string() +
                    " to continue from that checkpoint, or --overwrite to remove all and start anew");
    }
    return {identity_.empty() ? new_identity() : identity_, checkpoints_, false};
  }

  [[nodiscard]] StartDecision continue_from(const fs::path& given) const {
    std::vector<fs::path> candidates = checkpoints_at(given);
    const std::string found = identity_of(candidates.front()).value_or("");
    const bool is_own = is_in_output(candidates.front()) || (!found.empty() && found == identity_);
    if (!is_own && !checkpoints_.empty()) {
      throw refusal("holds checkpoints, the newest of step " + step_text(checkpoints_.front()) + ", and '" +
                    candidates.front().string() + "' is of another run; accepted: another run.output");
    }
    // The folder becomes that of the checkpoint's run, even if its run-id was damaged.
    std::string identity = is_own && !found.empty() ? found : identity_;
    if (identity.empty()) identity = new_identity();
    return {std::move(identity), std::move(candidates), false};
  }

 private:
  [[nodiscard]] std::string missing_identity() const {
    const std::string name = kIdentityName;
    std::error_code ignored;
    return "of no run (" +
           (fs::exists(output_ / name, ignored) ? "its " + name + " is damaged)" : "it has no " + name + ")");
  }

  [[nodiscard]] ConfigurationError refusal(const std::string& message) const {
    return configuration_.error("run.output", "'" + output_.string() + "' " + message);
  }

  [[nodiscard]] static std::string step_text(const fs::path& checkpoint) {
    return std::to_string(step_of_checkpoint(checkpoint).value_or(0));
  }

  /// The checkpoint `given`, or those of the run's output or checkpoints folder `given`. \throws ConfigurationError if
  /// there is none.
  [[nodiscard]] static std::vector<fs::path> checkpoints_at(const fs::path& given) {
    std::error_code ignored;
    if (!fs::is_regular_file(given / kManifestName, ignored)) {
      for (const fs::path& directory : {given, given / "checkpoints"}) {
        if (std::vector<fs::path> found = checkpoints_in(directory); !found.empty()) return found;
      }
    }
    return {find_checkpoint(given)};
  }

  [[nodiscard]] bool is_in_output(const fs::path& checkpoint) const {
    fs::path path = fs::absolute(checkpoint).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    std::error_code ignored;
    return fs::equivalent(path.parent_path(), output_ / "checkpoints", ignored);
  }

  const RunConfiguration& configuration_;
  fs::path output_;
  /// Empty if no run has started in the folder.
  std::string identity_;
  std::vector<fs::path> checkpoints_;
};

constexpr const char* kLockName = ".lock";

/// The folders on the way to `folder` that do not exist, from the inside out.
std::vector<fs::path> missing_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  fs::path each = fs::absolute(folder).lexically_normal();
  if (!each.has_filename()) each = each.parent_path();
  for (; each.has_relative_path() && !fs::exists(fs::symlink_status(each, error)); each = each.parent_path()) {
    missing.push_back(each);
  }
  return missing;
}

}  // namespace

std::string stored_identity(const fs::path& output) {
  const std::string word = first_word(output / kIdentityName);
  return is_identity(word) ? word : "";
}

StartDecision decide_start(const RunConfiguration& configuration, bool overwrite) {
  const OutputFolder folder(configuration);
  const std::string& resume = configuration.run.resume;
  if (overwrite) return folder.overwrite();
  if (resume.empty()) return folder.start_anew();
  return resume == kResumeAuto ? folder.start_or_continue() : folder.continue_from(resume);
}

void begin_run(const fs::path& output, const StartDecision& decision) {
  if (decision.overwrites) {
    const fs::path directory = output / "checkpoints";
    std::error_code ignored;
    fs::remove(directory / kLatestName, ignored);
    for (const fs::path& checkpoint : checkpoints_in(directory)) {
      std::error_code failure;
      remove_checkpoint(checkpoint, failure);
      if (failure) throw RuntimeError("'" + checkpoint.string() + "': cannot be removed: " + failure.message());
    }
  }
  if (stored_identity(output) != decision.identity) replace_file(output / kIdentityName, decision.identity + "\n");
}

RunOutput::RunOutput(fs::path folder) : folder_(std::move(folder)), missing_(missing_folders(folder_)) {}

void RunOutput::open(bool locks) {
  try {
    make_directories(folder_);
  } catch (const RuntimeError& error) {
    throw RuntimeError("run.output " + std::string(error.what()));
  }
  if (!locks) return;
  lock_ =
      std::make_unique<FileLock>(folder_ / kLockName, "run.output '" + folder_.string() + "' is in use by another run");
}

RunOutput::~RunOutput() {
  std::error_code ignored;
  if (missing_.empty()) return;
  int entries = 0;
  for (fs::directory_iterator each(folder_, ignored), end; each != end; each.increment(ignored)) ++entries;
  if (lock_ != nullptr && entries == 1) fs::remove(folder_ / kLockName, ignored);
  // Folders that hold something stay.
  for (const fs::path& each : missing_) fs::remove(each, ignored);
}

}  // namespace strata::host

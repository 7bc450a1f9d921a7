#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "chaos/plan.hpp"

namespace strata::testing::chaos {

/// The files of a stopped run, and what was done to them.
class RunFiles {
 public:
  RunFiles(std::filesystem::path output, std::filesystem::path log);

  [[nodiscard]] const std::filesystem::path& output() const { return output_; }
  [[nodiscard]] const std::filesystem::path& log() const { return log_; }

  /// \return false if there is no such file yet.
  bool apply(const Damage& damage);

  enum class Checkpoints : std::uint8_t { none, some_whole, perhaps_none_whole, none_whole };
  [[nodiscard]] Checkpoints checkpoints() const;
  /// No damaged checkpoint could be read.
  void give_up_checkpoints() const;
  /// True if run-id does not say what the run wrote.
  [[nodiscard]] bool has_wrong_identity() const;
  [[nodiscard]] std::optional<std::filesystem::path> newest_whole() const;
  void restore_identity();
  /// The run has begun or continued, so it has taken what is in run-id for its own.
  void accept_identity() { identity_.reset(); }
  /// True once since the log was damaged.
  [[nodiscard]] bool take_log_damage();

  /// Names of files that should not exist after the end of a run, one a line.
  [[nodiscard]] std::string leftovers(int keep) const;
  /// All files with their sizes, one a line.
  [[nodiscard]] std::string list() const;

 private:
  /// Folders of checkpoints, the newest first.
  [[nodiscard]] std::vector<std::filesystem::path> folders() const;
  bool damage_checkpoint(const std::filesystem::path& checkpoint, const Damage& damage) const;

  std::filesystem::path output_;
  std::filesystem::path log_;
  /// Contents of run-id before it was damaged.
  std::optional<std::string> identity_;
  bool log_is_damaged_ = false;
};

}  // namespace strata::testing::chaos

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/disk.hpp"

namespace strata::host {

/// The checkpoints that a run is going to write.
struct CheckpointsToCome {
  std::uint64_t count = 1;
  /// Steps of the run so far. Existing checkpoints of later steps stay, because another run wrote them.
  std::uint64_t first_step = 0;
  /// Of the bytes of each, those that all of them share.
  std::uint64_t shared_bytes = 0;
  /// A checkpoint that has the shared bytes already, if there is one. They count unless its files can be linked.
  std::filesystem::path base = {};
};

/// The folder that contains all checkpoints of a run.
class CheckpointStore {
 public:
  /// `keep`: number of newest checkpoints to keep; 0: all.
  CheckpointStore(std::filesystem::path directory, int keep, const Disk& disk = system_disk())
      : directory_(std::move(directory)), keep_(keep), disk_(disk) {}

  /// Creates the folder, removes leftovers of an interrupted run, and checks that there is space for the checkpoints to
  /// come, of `bytes` each: for all that will exist at once, while one more than `keep` is written. \throws
  /// RuntimeError if that fails.
  void prepare(std::uint64_t bytes, const CheckpointsToCome& coming = {}) const;
  /// Checks that there is space for `bytes` of a checkpoint, of which the files in folder `temporary` are a part that
  /// it shares with no other. \throws RuntimeError if there is not.
  void require_space(std::uint64_t bytes, const std::filesystem::path& temporary) const;
  /// True if the file `existing` can have a second name in the folder.
  [[nodiscard]] bool can_link(const std::filesystem::path& existing) const;
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  [[nodiscard]] const Disk& disk() const { return disk_; }
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t step) const;
  /// The checkpoints of steps up to `step`, the newest last.
  [[nodiscard]] std::vector<std::filesystem::path> paths_up_to(std::uint64_t step) const;
  /// Gives the complete checkpoint in folder `temporary` its final name. If there is one of that step already, the new
  /// one takes its place. A complete checkpoint of the step has a final name at every moment.
  void put_in_place(const std::filesystem::path& temporary, std::uint64_t step) const;
  /// Makes the file `latest` name the checkpoint. \return a warning if something else had the file's name, and has
  /// another one now.
  [[nodiscard]] std::optional<std::string> set_latest(const std::filesystem::path& checkpoint) const;
  /// Removes temporary folders, and of the checkpoints up to `step` all but the newest.
  void clean(std::uint64_t step) const;

 private:
  /// True if a file may have two names.
  [[nodiscard]] bool has_links() const;
  void require_space(std::uint64_t bytes, const CheckpointsToCome& coming, std::uint64_t available) const;
  /// Ends replacements that a kill interrupted.
  void settle() const;

  std::filesystem::path directory_;
  int keep_;
  const Disk& disk_;
};

/// The checkpoints in a folder, damaged ones included: first the one that `latest` names, then older ones, then newer
/// ones. Newer ones are left of a run that continued from an earlier checkpoint.
[[nodiscard]] std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& directory);

/// Removes a checkpoint. It loses its final name first, so that an interrupted removal leaves no half of one.
void remove_checkpoint(const std::filesystem::path& checkpoint, std::error_code& failure);

/// The checkpoint at `given`: a checkpoint folder, or the newest checkpoint of a run's output folder or checkpoints
/// folder. \throws ConfigurationError if there is none.
[[nodiscard]] std::filesystem::path find_checkpoint(const std::filesystem::path& given);

/// The end of a message: which checkpoint in `directory` a run can go on from, if there is one.
[[nodiscard]] std::string describe_newest(const std::filesystem::path& directory);

/// \file
/// Names within a checkpoints folder.

inline constexpr const char* kManifestName = "manifest.json";
/// Ends the names of the files with tensors.
inline constexpr const char* kTensorSuffix = ".safetensors";
/// Name of the file that contains the name of the newest checkpoint.
inline constexpr const char* kLatestName = "latest";

/// Name of the checkpoint of a step, such as "step-00000100".
[[nodiscard]] std::string checkpoint_name(std::uint64_t step);
/// The step of a checkpoint, from the last component of its path. Empty if that is not a checkpoint's name.
[[nodiscard]] std::optional<std::uint64_t> step_of_checkpoint(const std::filesystem::path& directory);

}  // namespace strata::host

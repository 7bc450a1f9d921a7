#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/buffer_slice.hpp"
#include "train/checkpoint/checkpoint_manifest.hpp"
#include "train/checkpoint/checkpoint_plan.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace strata::host {

/// \file
/// A checkpoint is a folder step-00000100 of safetensors files and a manifest. It is written under a temporary name,
/// synced and renamed, so that a folder of that name is always whole; `latest` names the last one.

/// The folder in which a run keeps its checkpoints.
class CheckpointStore {
 public:
  /// Keeps the `keep` newest ones; 0: all.
  CheckpointStore(std::filesystem::path directory, int keep) : directory_(std::move(directory)), keep_(keep) {}

  /// Makes the folder, removes what an interrupted run left, and makes sure that `bytes` can be written. \throws
  /// RuntimeError otherwise.
  void prepare(std::uint64_t bytes) const;
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t step) const;
  /// Removes temporaries and, of the checkpoints up to `step`, all but the newest.
  void clean(std::uint64_t step) const;

 private:
  std::filesystem::path directory_;
  int keep_;
};

/// One checkpoint being written. One process calls begin, then every rank write_rank, and when all are done (a barrier
/// is the caller's) the first process calls commit. Ranks may be of several processes that share a file system.
class CheckpointWriter {
 public:
  /// `tag` makes the temporary name unique and is the same for every rank.
  CheckpointWriter(const CheckpointStore& store, const std::vector<CheckpointTensor>& plan, RunState run,
                   const std::string& tag);
  /// Removes the temporary of a checkpoint that was begun here and not committed.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  void begin();
  /// Writes the parts of `rank`. May run on several threads at once.
  void write_rank(int rank, const ReadSlice& read) const;
  /// Makes the checkpoint the last one. \return its folder.
  std::filesystem::path commit();

 private:
  [[nodiscard]] Manifest manifest() const;

  const CheckpointStore& store_;
  const std::vector<CheckpointTensor>& plan_;
  RunState run_;
  std::filesystem::path temporary_;
  bool begun_ = false;
};

/// The checkpoint that `given` means: itself, or the last one of a run's output folder or its checkpoints folder.
/// \throws ConfigurationError if there is none.
[[nodiscard]] std::filesystem::path find_checkpoint(const std::filesystem::path& given);

/// A whole and unaltered checkpoint.
class CheckpointReader {
 public:
  /// Checks size and checksum of every file. \throws RuntimeError naming the file that is missing, truncated or
  /// altered.
  explicit CheckpointReader(std::filesystem::path directory);

  [[nodiscard]] const RunState& run() const { return manifest_.run; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

  /// Gathers a part of a tensor into `destination`, converted between floating-point types where they differ. Safe to
  /// call from several threads. \throws RuntimeError naming a tensor that is missing or does not fit.
  void read(const std::string& tensor, const TensorPart& part, DType dtype, void* destination) const;
  /// Fills every parameter and optimizer state of a rank's program, whatever the layout in which they were written. A
  /// master copy that the checkpoint lacks starts as the value, and a value that was stored in another type comes from
  /// the master copy where there is one.
  void restore(const Program& program, int rank, const WriteSlice& write) const;

 private:
  void gather(const ManifestTensor& tensor, const TensorPart& part, std::byte* destination) const;
  /// The name of what `tensor` is restored from.
  [[nodiscard]] std::string source_of(const PersistentTensor& tensor) const;

  std::filesystem::path directory_;
  Manifest manifest_;
  std::map<std::string, std::unique_ptr<const SafetensorsFile>> files_;
};

}  // namespace strata::host

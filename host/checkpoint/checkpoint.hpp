#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_manifest.hpp"
#include "checkpoint/checkpoint_plan.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "checkpoint/safetensors.hpp"
#include "config/run_configuration.hpp"
#include "runtime/shards.hpp"
#include "strata/error.hpp"

namespace strata::host {

/// \file
/// A checkpoint is a folder, such as step-00000100, of safetensors files and a manifest. It is written under a
/// temporary name, synced and renamed, so a folder with a final name is always complete. The file `latest` names the
/// newest one.

/// A file of a checkpoint is missing, truncated or altered. A run that may choose continues from an older checkpoint.
class DamagedCheckpoint : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};

/// Writes the files of a model into the folder of a checkpoint. \return their entries in the manifest.
std::map<std::string, ManifestFile> write_model_files(const std::filesystem::path& checkpoint, const ModelFiles& files,
                                                      const Disk& disk);

/// Returns the next bytes of a rank's pieces, in the order of its file: at least one and at most `most`, valid until
/// the next call.
using NextBytes = std::function<std::span<const std::byte>(std::size_t most)>;

/// Writes one checkpoint. The first process calls begin(). write_rank() is called for every rank, and then, when all
/// calls have ended, the first process calls commit(). Ranks may be in several processes that share a file system.
class CheckpointWriter {
 public:
  /// `tag`: makes the temporary name unique. It is the same for all ranks. `base`: a checkpoint with the same values of
  /// frozen tensors, whose files the new one shares if they fit; empty: none.
  CheckpointWriter(const CheckpointStore& store, const CheckpointPlan& plan, RunState run, const std::string& tag,
                   std::filesystem::path base = {});
  /// Calls abandon().
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Creates the temporary folder. \throws RuntimeError if there is no space for the checkpoint.
  void begin();
  /// Writes the parts of `rank`. Thread-safe.
  void write_rank(int rank, const ReadSlice& read) const;
  /// Writes a file of `rank` with `pieces`, whose bytes `next` returns.
  void write_file(int rank, RankFile file, const std::vector<RankPiece>& pieces, const NextBytes& next) const;
  /// Gives the base's file of the rank's frozen tensors a second name in this checkpoint (a hard link). \return false
  /// if it cannot: the base has other pieces, its file is missing or damaged, or the file system has no links.
  [[nodiscard]] bool share_frozen(int rank) const;
  /// Makes the checkpoint the newest one. \return its folder.
  std::filesystem::path commit();
  /// Removes the temporary folder if begin() was called but not commit().
  void abandon();

  [[nodiscard]] const RunState& run() const { return run_; }
  /// What commit() had to repair. Empty if nothing.
  [[nodiscard]] const std::optional<std::string>& remark() const { return remark_; }

 private:
  [[nodiscard]] Manifest manifest() const;
  /// Records what a file holds, for the process that writes the manifest.
  void write_record(const std::string& stem, const ManifestFile& file,
                    const std::map<std::string, std::string>& pieces) const;
  void write_text(const std::filesystem::path& path, const std::string& text) const;

  const CheckpointStore& store_;
  const CheckpointPlan& plan_;
  RunState run_;
  std::filesystem::path temporary_;
  std::filesystem::path base_;
  bool begun_ = false;
  std::optional<std::string> remark_;
};

/// True if the checkpoint `base` has a file with exactly the frozen tensors of `plan` for every rank. Whether the
/// values are the same, the caller knows.
[[nodiscard]] bool has_frozen_files(const Manifest& base, const CheckpointPlan& plan);

/// How to restore values of which the replicas in a checkpoint differ, if the run has another number of replicas.
enum class DifferingReplicas : std::uint8_t {
  refuse,      ///< training would lose what the replicas learned since they agreed
  last_agreed  ///< the values on which they agreed last (kAgreedState)
};

/// Which of a checkpoint's values become the values of the run.
enum class RestoredWeights : std::uint8_t {
  trained,
  average  ///< their moving average (kAverageState); of the first replica if replicas differ
};

/// A checkpoint. Of its files only the pieces that are read are loaded, and each process compares the checksum of a
/// piece once, when it first reads some of it.
class CheckpointReader {
 public:
  /// Reads the manifest, and compares the files' sizes. \throws DamagedCheckpoint that names a file that is missing,
  /// truncated or no regular file.
  explicit CheckpointReader(std::filesystem::path directory);
  virtual ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  /// Compares the checksums of all files. \throws DamagedCheckpoint that names a file that was altered.
  void verify() const;

  [[nodiscard]] const RunState& run() const { return manifest_.run; }
  /// The run's configuration. Messages name the place in its text, which is one value of the manifest.
  [[nodiscard]] RunConfiguration configuration(const std::vector<std::string>& overrides = {}) const;
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  /// True if it contains a moving average of some parameter.
  [[nodiscard]] bool has_average() const;
  /// \throws ConfigurationError if `weights` are the average, which the checkpoint lacks.
  void require(RestoredWeights weights) const;
  /// Reads the files that belong to the model. \throws DamagedCheckpoint that names a file that was altered.
  [[nodiscard]] virtual ModelFiles model_files() const;

  /// Reads a part of a tensor into `destination`, and converts between floating-point types. Thread-safe. \throws
  /// RuntimeError if the tensor is missing or has another shape. \throws DamagedCheckpoint if a file that has some of
  /// it was altered.
  void read(const std::string& tensor, const TensorPart& part, DType dtype, void* destination) const;
  /// Reads a part of a parameter's value, as read() does: from its master copy if the value is stored in another type
  /// than `dtype` and there is one, or the moving average if that is asked for and there is one. Replicas of the
  /// checkpoint have no dimension in `part`. \throws RuntimeError if they differ, and values on which they agreed last
  /// are missing.
  void read_value(const std::string& parameter, const TensorPart& part, DType dtype, void* destination,
                  RestoredWeights weights = RestoredWeights::trained) const;
  /// Restores every parameter and optimizer state of a rank's program, whatever layout wrote them. A master copy that
  /// the checkpoint lacks is restored from the value. A value that was stored in another type is restored from the
  /// master copy if there is one. A strategy's state that the checkpoint lacks begins anew.
  ///
  /// Replicas along unsynchronized axes: the same number continues as it was. A checkpoint without replicas begins all
  /// of them. If the number differs, the stored replicas must agree on values and on what they share, or `differing`
  /// decides. Replica i of the run then takes the optimizer's states of the stored replica i, modulo their number. A
  /// parameter without an average is restored as it was trained.
  ///
  /// Workers along self-reduced axes: of a state that they sum (StateTraits::is_summed), worker i takes the sum of
  /// those of the stored workers i, i + n, i + 2n, …, where n is the number of workers of the run.
  ///
  /// `restored`: called after each tensor. Ranks that wait for each other meet there, so that none waits for the whole
  /// reading of another one.
  /// \throws RuntimeError if the replicas differ, or if replicas with other workers have states to sum.
  void restore(const Program& program, int rank, const WriteSlice& write,
               DifferingReplicas differing = DifferingReplicas::refuse,
               RestoredWeights weights = RestoredWeights::trained, const std::function<void()>& restored = {}) const;
  /// Sets the values that the checkpoint has, and what begins as they do, such as master copies, or is derived from
  /// them (DerivedInitializer). Everything else keeps what it was initialised with. Replicas begin alike. `restored`:
  /// as in restore().
  void restore_values(const Program& program, int rank, const WriteSlice& write,
                      const std::function<void()>& restored = {}) const;
  /// Names of tensors that hold gradients which no update has applied yet (kPendingState), and that a run with the
  /// checkpoints `plan` does not restore.
  [[nodiscard]] std::vector<std::string> dropped(const CheckpointPlan& plan) const;

 protected:
  /// For values that lie in other files than those of a checkpoint. Derived classes read them in gather().
  CheckpointReader(std::filesystem::path directory, Manifest manifest);

  /// Reads a part of the tensor `name` in its own type.
  virtual void gather(const std::string& name, const TensorPart& part, std::byte* destination) const;

 private:
  /// A file, opened when something of it is first read.
  struct File {
    std::once_flag once;
    std::unique_ptr<const SafetensorsFile> content;
  };

  [[nodiscard]] std::filesystem::path path_of(const std::string& file) const { return directory_ / file; }
  [[nodiscard]] DamagedCheckpoint altered(const std::string& file) const;
  [[nodiscard]] const SafetensorsFile& open(const std::string& file) const;
  /// The bytes of a piece, with their checksum compared.
  [[nodiscard]] std::span<const std::byte> verified(const ManifestTensor& tensor, const ManifestPiece& piece) const;
  std::filesystem::path directory_;
  Manifest manifest_;
  mutable std::map<std::string, File> files_;
  /// Whether a piece's checksum was compared, by file and key.
  mutable std::map<std::pair<std::string, std::string>, std::once_flag> compared_;
};

}  // namespace strata::host

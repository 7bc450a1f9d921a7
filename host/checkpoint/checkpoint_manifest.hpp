#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_files.hpp"
#include "log/health_state.hpp"
#include "runtime/tensor_part.hpp"
#include "strata/tensor.hpp"
#include "strata/vocabulary.hpp"
#include "train/loss_scaler.hpp"

namespace strata::host {

/// The data of a run.
struct DataState {
  /// Dataset::fingerprint() and Dataset::description().
  std::string fingerprint;
  std::string description;
  /// The sizes that the data fixed.
  DimSizes sizes;

  bool operator==(const DataState&) const = default;
};

/// The state of a run besides its tensors. Random numbers are counter-based, so seed and step are their whole state.
struct RunState {
  /// Completed steps.
  std::uint64_t step = 0;
  std::uint64_t seed = 0;
  /// Samples that the completed steps consumed or left out.
  std::uint64_t samples = 0;
  /// The resolved configuration, as TOML.
  std::string configuration;
  /// Empty if the data is no text.
  std::optional<Vocabulary> vocabulary = std::nullopt;
  /// Empty if the run does not scale its loss.
  std::optional<LossScalerState> loss_scaler = std::nullopt;
  /// Empty in checkpoints of format versions before 3.
  std::optional<DataState> data = std::nullopt;
  /// 32 hexadecimal digits that all checkpoints of a run share. Empty in checkpoints of earlier versions.
  std::string identity = {};
  /// True if the run ended before the evaluation that is due after `step`.
  bool evaluation_due = false;
  /// Empty if the rules of [health] have nothing to remember.
  std::optional<HealthState> health = std::nullopt;
  /// Types of the model's parameters in the Hugging Face files from which its values come. An export has the same ones.
  /// Empty if the values come from elsewhere.
  std::map<std::string, DType> imported_types = {};
  /// The files of the model that a checkpoint is going to have. CheckpointReader::model_files() reads those of one.
  std::shared_ptr<const ModelFiles> model_files = nullptr;

  bool operator==(const RunState&) const = default;
};

/// A part of a tensor, and the file that contains it.
struct ManifestPiece {
  std::string file;
  /// The tensor's name in that file.
  std::string key;
  TensorPart part;
  /// XXH3-128 of the piece's bytes, in hexadecimal. Empty in checkpoints of format versions before 4.
  std::string checksum = {};

  bool operator==(const ManifestPiece&) const = default;
};

struct ManifestTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<ManifestPiece> pieces;

  bool operator==(const ManifestTensor&) const = default;
};

struct ManifestFile {
  std::uint64_t bytes = 0;
  /// XXH3-128 in hexadecimal.
  std::string checksum;

  bool operator==(const ManifestFile&) const = default;
};

/// The table of contents of a checkpoint: logical tensors with global shapes, and the files of their parts.
struct Manifest {
  RunState run;
  std::map<std::string, ManifestTensor> tensors;
  std::map<std::string, ManifestFile> files;

  bool operator==(const Manifest&) const = default;
};

/// The manifest as JSON, with a checksum over itself.
[[nodiscard]] std::string to_json(const Manifest& manifest);

/// \throws RuntimeError, without a path, if to_json() cannot have written the text.
[[nodiscard]] Manifest manifest_from_json(const std::string& text);

/// Reads a manifest from disk. \throws RuntimeError with the path.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& path);

}  // namespace strata::host

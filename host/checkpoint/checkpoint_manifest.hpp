#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.hpp"
#include "runtime/tensor_part.hpp"
#include "strata/tensor.hpp"
#include "strata/vocabulary.hpp"

namespace strata::host {

/// A file that belongs to a model besides its tensors, such as its tokenizer. Checkpoints carry such files unread.
struct ModelFile {
  std::string name;
  std::string bytes;

  bool operator==(const ModelFile&) const = default;
};
using ModelFiles = std::vector<ModelFile>;

/// The folder of these files in a checkpoint.
inline constexpr const char* kModelFilesFolder = "tokenizer";

/// True if `name` is a file's name that leads neither into a folder nor out of one, and is not hidden.
[[nodiscard]] bool is_plain_name(std::string_view name);
/// True for the path of a model's file in a checkpoint, such as "tokenizer/tokenizer.json".
[[nodiscard]] bool is_model_file(std::string_view path);

/// The state of a loss scaler.
struct LossScalerState {
  /// Scale of the mean loss.
  double scale = 1;
  /// Good steps since the last change of the scale.
  int good_steps = 0;
  /// Skipped steps since the beginning of the run.
  std::uint64_t skipped_steps = 0;

  bool operator==(const LossScalerState&) const = default;
};

/// A range of samples, counted over the whole run as RunState::samples.
struct SampleRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool operator==(const SampleRange&) const = default;
};

/// The state of the rules of [health].
struct HealthState {
  /// Losses and gradient norms of the last good steps, the newest last. Empty without rules for jumps.
  std::vector<double> losses = {};
  std::vector<double> norms = {};
  /// Steps in a row that were skipped last.
  std::int64_t skips_in_a_row = 0;
  /// Times that the run went back.
  std::int64_t rewinds = 0;
  /// Samples that the run left out by going back.
  std::vector<SampleRange> left_out = {};
  /// Step to which the run went back, if no good step has followed.
  std::optional<std::uint64_t> rewound_to = {};

  bool operator==(const HealthState&) const = default;
};

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
  /// Empty in a checkpoint that was made of a model without data.
  std::optional<DataState> data = std::nullopt;
  /// 32 hexadecimal digits that all checkpoints of a run share. Empty if no run wrote the checkpoint.
  std::string identity = {};
  /// True if the run ended before the evaluation that is due after `step`.
  bool evaluation_due = false;
  /// Empty if the rules of [health] have nothing to remember.
  std::optional<HealthState> health = std::nullopt;
  /// Types of the model's parameters in Hugging Face's files from which its values come. An export has the same ones.
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
  /// XXH3-128 of the piece's bytes, in hexadecimal.
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

/// A shape as text: "[2 3]".
[[nodiscard]] std::string shape_text(const Shape& shape);

/// The manifest as JSON, with a checksum over itself.
[[nodiscard]] std::string to_json(const Manifest& manifest);

/// \throws RuntimeError, without a path, if to_json() cannot have written the text.
[[nodiscard]] Manifest manifest_from_json(const std::string& text);

/// Reads a manifest from disk. \throws RuntimeError with the path.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& path);

/// The state of the rules of [health] in a manifest.
[[nodiscard]] nlohmann::json health_json(const HealthState& state);

/// \throws ConfigurationError if health_json() cannot have written the value.
[[nodiscard]] HealthState health_from_json(const JsonValue& value);

}  // namespace strata::host

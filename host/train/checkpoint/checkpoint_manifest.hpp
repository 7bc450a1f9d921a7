#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor_part.hpp"
#include "train/data/tokenizer.hpp"
#include "train/run/loss_scaler.hpp"

namespace strata::host {

/// What a checkpoint knows of the run beside its tensors. Random numbers are counter-based: seed and step are their
/// whole state.
struct RunState {
  /// Steps that are done.
  std::uint64_t step = 0;
  std::uint64_t seed = 0;
  /// Samples that those steps took.
  std::uint64_t samples = 0;
  /// The resolved configuration, as TOML.
  std::string configuration;
  Vocabulary vocabulary;
  /// Empty for a run whose loss is not scaled.
  std::optional<LossScalerState> loss_scaler = std::nullopt;

  bool operator==(const RunState&) const = default;
};

/// A part of a tensor in a file.
struct ManifestPiece {
  std::string file;
  /// The tensor's name in that file.
  std::string key;
  TensorPart part;

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
  /// XXH3-128.
  std::string checksum;

  bool operator==(const ManifestFile&) const = default;
};

/// The table of contents of a checkpoint: logical tensors with global shapes, and where their parts lie.
struct Manifest {
  RunState run;
  std::map<std::string, ManifestTensor> tensors;
  std::map<std::string, ManifestFile> files;

  bool operator==(const Manifest&) const = default;
};

/// JSON, with a checksum over itself.
[[nodiscard]] std::string to_json(const Manifest& manifest);

/// \throws RuntimeError, without a path, for anything that to_json would not have written.
[[nodiscard]] Manifest manifest_from_json(const std::string& text);

/// Reads a manifest from disk. \throws RuntimeError with the path.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& path);

}  // namespace strata::host

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "runtime/element.hpp"
#include "runtime/shards.hpp"
#include "runtime/tensor_part.hpp"

namespace strata::host {

namespace fs = std::filesystem;

CheckpointReader::CheckpointReader(fs::path directory)
    : directory_(std::move(directory)), manifest_(read_manifest(directory_ / kManifestName)) {
  for (const auto& [name, expected] : manifest_.files) {
    const fs::path path = path_of(name);
    const auto refuse = [&](const std::string& what) { throw DamagedCheckpoint("'" + path.string() + "'" + what); };
    std::error_code error;
    // An export copies these files, and must not copy what a link points to.
    const bool is_link = is_model_file(name) && (fs::is_symlink(fs::symlink_status(path, error)) ||
                                                 fs::is_symlink(fs::symlink_status(path.parent_path(), error)));
    if (is_link) refuse(": is or lies in a symbolic link; accepted: the file itself");
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) refuse(": cannot be opened: " + error.message());
    if (!fs::is_regular_file(status)) refuse(": is not a regular file");
    const std::uint64_t bytes = fs::file_size(path, error);
    if (bytes != expected.bytes) {
      refuse(" is truncated or was altered: it has " + std::to_string(bytes) + " bytes instead of " +
             std::to_string(expected.bytes));
    }
    files_[name];
  }
  for (const auto& [name, tensor] : manifest_.tensors) {
    for (const ManifestPiece& piece : tensor.pieces) compared_[{piece.file, piece.key}];
  }
}

CheckpointReader::CheckpointReader(fs::path directory, Manifest manifest)
    : directory_(std::move(directory)), manifest_(std::move(manifest)) {}

RunConfiguration CheckpointReader::configuration(const std::vector<std::string>& overrides) const {
  const std::string source = (directory_ / kManifestName).string() + " (configuration)";
  return parse_configuration(run().configuration, source, overrides);
}

CheckpointReader::~CheckpointReader() = default;

ModelFiles CheckpointReader::model_files() const {
  ModelFiles files;
  for (const auto& [name, expected] : manifest_.files) {
    if (!is_model_file(name)) continue;
    const MappedFile file(path_of(name));
    if (checksum_of(file.bytes()) != expected.checksum) throw altered(name);
    files.push_back({name.substr(std::string_view(kModelFilesFolder).size() + 1), std::string(file.text())});
  }
  return files;
}

DamagedCheckpoint CheckpointReader::altered(const std::string& file) const {
  return DamagedCheckpoint("'" + path_of(file).string() + "' was altered: its checksum does not fit the manifest");
}

void CheckpointReader::verify() const {
  for (const auto& [name, expected] : manifest_.files) {
    if (checksum_of(MappedFile(path_of(name)).bytes()) != expected.checksum) throw altered(name);
  }
}

const SafetensorsFile& CheckpointReader::open(const std::string& name) const {
  File& file = files_.at(name);
  std::call_once(file.once, [&] {
    try {
      file.content = std::make_unique<const SafetensorsFile>(path_of(name));
    } catch (const RuntimeError& error) {
      throw DamagedCheckpoint(error.what());
    }
  });
  return *file.content;
}

std::span<const std::byte> CheckpointReader::verified(const ManifestTensor& tensor, const ManifestPiece& piece) const {
  const SafetensorsFile& file = open(piece.file);
  const auto found = file.tensors().find(piece.key);
  if (found == file.tensors().end() || found->second.tensor.dtype != tensor.dtype ||
      found->second.tensor.shape != piece.part.shape()) {
    throw DamagedCheckpoint("'" + path_of(piece.file).string() + "' was altered: it lacks '" + piece.key +
                            "' as the manifest describes it");
  }
  const std::span<const std::byte> data = found->second.data;
  std::call_once(compared_.at({piece.file, piece.key}), [&] {
    if (checksum_of(data) != piece.checksum) throw altered(piece.file);
  });
  return data;
}

void CheckpointReader::gather(const std::string& name, const TensorPart& part, std::byte* destination) const {
  const ManifestTensor& tensor = manifest_.tensors.at(name);
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  std::int64_t missing = part.elements();
  for (const ManifestPiece& piece : tensor.pieces) {
    const std::byte* source = nullptr;
    for_each_common_run(piece.part, part, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
      if (source == nullptr) source = verified(tensor, piece).data();
      std::memcpy(destination + to * size, source + from * size, static_cast<std::size_t>(length * size));
      missing -= length;
    });
  }
  if (missing != 0) throw RuntimeError("the pieces do not cover the tensor");
}

void CheckpointReader::read(const std::string& tensor, const TensorPart& part, DType dtype, void* destination) const {
  const auto wrong = [&](const std::string& what) {
    return RuntimeError("checkpoint '" + directory_.string() + "': tensor '" + tensor + "' " + what);
  };
  const auto found = manifest_.tensors.find(tensor);
  if (found == manifest_.tensors.end()) throw wrong("is missing; was it written by another model or optimizer?");
  const ManifestTensor& stored = found->second;
  if (stored.shape != part.tensor_shape()) {
    throw wrong("has shape " + shape_text(stored.shape) + "; this run's model has " + shape_text(part.tensor_shape()));
  }
  if (stored.dtype == dtype) {
    gather(tensor, part, static_cast<std::byte*>(destination));
    return;
  }
  if (!is_floating_point(stored.dtype) || !is_floating_point(dtype)) {
    throw wrong("has type " + std::string(to_string(stored.dtype)) + "; this run needs " +
                std::string(to_string(dtype)));
  }
  std::vector<std::byte> buffer(static_cast<std::size_t>(part.elements()) * size_of(stored.dtype));
  gather(tensor, part, buffer.data());
  for (std::int64_t i = 0; i < part.elements(); ++i) {
    store_element(dtype, destination, i, load_element(stored.dtype, buffer.data(), i));
  }
}

}  // namespace strata::host

#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_names.hpp"
#include "checkpoint/part_copy.hpp"
#include "runtime/element.hpp"
#include "runtime/shards.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? " " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace

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
    for (const ManifestPiece& piece : tensor.pieces) compared_[{piece.file, piece.checksum.empty() ? "" : piece.key}];
  }
}

CheckpointReader::CheckpointReader(fs::path directory, Manifest manifest)
    : directory_(std::move(directory)), manifest_(std::move(manifest)) {}

CheckpointReader::~CheckpointReader() = default;

ModelFiles CheckpointReader::model_files() const {
  ModelFiles files;
  for (const auto& [name, expected] : manifest_.files) {
    if (!is_model_file(name)) continue;
    const MappedFile file(path_of(name));
    if (checksum_of(file.bytes()) != expected.checksum) throw altered(name);
    const auto* text = reinterpret_cast<const char*>(file.bytes().data());
    files.push_back({name.substr(std::string_view(kModelFilesFolder).size() + 1), {text, file.bytes().size()}});
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
  // Manifests of format versions before 4 have checksums of whole files only.
  const bool of_file = piece.checksum.empty();
  std::once_flag& once = compared_.at({piece.file, of_file ? "" : piece.key});
  std::call_once(once, [&] {
    const std::string& expected = of_file ? manifest_.files.at(piece.file).checksum : piece.checksum;
    if (checksum_of(of_file ? file.bytes() : data) != expected) throw altered(piece.file);
  });
  return data;
}

void CheckpointReader::gather(const std::string& name, const TensorPart& part, std::byte* destination) const {
  const ManifestTensor& tensor = manifest_.tensors.at(name);
  std::int64_t missing = part.elements();
  for (const ManifestPiece& piece : tensor.pieces) {
    const PartCopy copy(piece.part, part, size_of(tensor.dtype));
    if (!copy.has_elements()) continue;
    missing -= copy.run(verified(tensor, piece).data(), destination);
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
    throw wrong("has shape " + to_text(stored.shape) + "; this run's model has " + to_text(part.tensor_shape()));
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

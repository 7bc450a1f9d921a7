#include <fstream>
#include <utility>

#include "runtime/element.hpp"
#include "runtime/shards.hpp"
#include "strata/error.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/checkpoint/checkpoint_names.hpp"
#include "train/checkpoint/part_copy.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? " " : "") + std::to_string(size);
  return text + "]";
}

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / kManifestName, ignored);
}

/// The checkpoint named by `latest`, or else the one with the most steps. Empty if there is none.
fs::path last_checkpoint(const fs::path& directory) {
  std::string name;
  std::ifstream(directory / kLatestName) >> name;
  if (step_of_checkpoint(name) && is_checkpoint(directory / name)) return directory / name;
  fs::path last;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const auto step = step_of_checkpoint(entry.path());
    if (step && is_checkpoint(entry.path()) && (last.empty() || *step > *step_of_checkpoint(last))) last = entry.path();
  }
  return last;
}

}  // namespace

fs::path find_checkpoint(const fs::path& given) {
  if (is_checkpoint(given)) return given;
  for (const fs::path& directory : {given, given / "checkpoints"}) {
    if (const fs::path found = last_checkpoint(directory); !found.empty()) return found;
  }
  if (!fs::exists(given)) throw ConfigurationError("'" + given.string() + "': there is no such checkpoint");
  throw ConfigurationError("'" + given.string() + "': there is no checkpoint; expected a folder with a " +
                           kManifestName + ", or the output folder of a run that has written one");
}

CheckpointReader::CheckpointReader(fs::path directory)
    : directory_(std::move(directory)), manifest_(read_manifest(directory_ / kManifestName)) {
  for (const auto& [name, expected] : manifest_.files) {
    const fs::path path = directory_ / name;
    {
      const MappedFile file(path);
      if (file.bytes().size() != expected.bytes) {
        throw RuntimeError("'" + path.string() + "' is truncated or was altered: it has " +
                           std::to_string(file.bytes().size()) + " bytes instead of " + std::to_string(expected.bytes));
      }
      if (checksum_of(file.bytes()) != expected.checksum) {
        throw RuntimeError("'" + path.string() + "' was altered: its checksum does not fit the manifest");
      }
    }
    files_[name] = std::make_unique<SafetensorsFile>(path);
  }
}

void CheckpointReader::gather(const ManifestTensor& tensor, const TensorPart& part, std::byte* destination) const {
  std::int64_t missing = part.elements();
  for (const ManifestPiece& piece : tensor.pieces) {
    const SafetensorsFile& file = *files_.at(piece.file);
    const auto found = file.tensors().find(piece.key);
    if (found == file.tensors().end() || found->second.tensor.dtype != tensor.dtype ||
        found->second.tensor.shape != piece.part.shape()) {
      throw RuntimeError("'" + (directory_ / piece.file).string() + "' lacks '" + piece.key +
                         "' as the manifest describes it");
    }
    missing -= PartCopy(piece.part, part, size_of(tensor.dtype)).run(found->second.data.data(), destination);
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
    gather(stored, part, static_cast<std::byte*>(destination));
    return;
  }
  if (!is_floating_point(stored.dtype) || !is_floating_point(dtype)) {
    throw wrong("has type " + std::string(to_string(stored.dtype)) + "; this run needs " +
                std::string(to_string(dtype)));
  }
  std::vector<std::byte> buffer(static_cast<std::size_t>(part.elements()) * size_of(stored.dtype));
  gather(stored, part, buffer.data());
  for (std::int64_t i = 0; i < part.elements(); ++i) {
    store_element(dtype, destination, i, load_element(stored.dtype, buffer.data(), i));
  }
}

}  // namespace strata::host

#include <algorithm>
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
namespace {

/// Number of elements of a block below one index of each dim. The first entry is the whole block's.
std::vector<std::int64_t> pitches(const std::vector<IndexMap>& dims) {
  std::vector<std::int64_t> result(dims.size() + 1, 1);
  for (std::size_t dim = dims.size(); dim-- > 0;) result[dim] = result[dim + 1] * dims[dim].local_size();
  return result;
}

namespace fs = std::filesystem;

/// Copies the elements that two parts of a tensor have in common from one array to another.
class PartCopy {
 public:
  PartCopy(const TensorPart& source, const TensorPart& destination, std::size_t element_bytes);

  /// Each array begins with the first element of its part. \return the number of copied elements.
  std::int64_t run(const std::byte* source, std::byte* destination) const;
  /// True if the parts have elements in common.
  [[nodiscard]] bool has_elements() const;

 private:
  /// A run of indices of one dim that both blocks contain.
  struct Overlap {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t length = 0;
  };
  static std::vector<Overlap> overlaps(const IndexMap& source, const IndexMap& destination);

  /// Copies the dims from `dim` on. Their first elements are at `from` and `to` within the blocks. Without a
  /// destination it copies nothing, and returns when it has found common elements.
  std::int64_t copy_dims(std::size_t dim, std::int64_t from, std::int64_t to, const std::byte* source,
                         std::byte* destination) const;
  /// Copies the elements of a run of the blocks that both parts contain.
  std::int64_t copy_run(std::int64_t from, std::int64_t to, std::int64_t length, const std::byte* source,
                        std::byte* destination) const;

  std::int64_t source_begin_;
  std::int64_t source_end_;
  std::int64_t destination_begin_;
  std::int64_t destination_end_;
  std::int64_t element_bytes_;
  /// Distance in elements, within a block, between neighbouring indices of each dim. The extra last entry is 1.
  std::vector<std::int64_t> source_pitch_;
  std::vector<std::int64_t> destination_pitch_;
  std::vector<std::vector<Overlap>> overlaps_;
};

PartCopy::PartCopy(const TensorPart& source, const TensorPart& destination, std::size_t element_bytes)
    : source_begin_(source.begin),
      source_end_(source.end),
      destination_begin_(destination.begin),
      destination_end_(destination.end),
      element_bytes_(static_cast<std::int64_t>(element_bytes)),
      source_pitch_(pitches(source.dims)),
      destination_pitch_(pitches(destination.dims)) {
  for (std::size_t dim = 0; dim < source.dims.size(); ++dim) {
    overlaps_.push_back(overlaps(source.dims[dim], destination.dims[dim]));
  }
}

std::int64_t PartCopy::run(const std::byte* source, std::byte* destination) const {
  return copy_dims(0, 0, 0, source, destination);
}

bool PartCopy::has_elements() const {
  if (std::any_of(overlaps_.begin(), overlaps_.end(), [](const auto& each) { return each.empty(); })) return false;
  return copy_dims(0, 0, 0, nullptr, nullptr) > 0;
}

std::vector<PartCopy::Overlap> PartCopy::overlaps(const IndexMap& source, const IndexMap& destination) {
  std::vector<Overlap> result;
  for (const IndexSegment& from : source.segments) {
    for (const IndexSegment& to : destination.segments) {
      const std::int64_t begin = std::max(from.global_begin, to.global_begin);
      const std::int64_t end = std::min(from.global_begin + from.length, to.global_begin + to.length);
      if (begin >= end) continue;
      result.push_back(
          {from.local_begin + begin - from.global_begin, to.local_begin + begin - to.global_begin, end - begin});
    }
  }
  return result;
}

std::int64_t PartCopy::copy_dims(std::size_t dim, std::int64_t from, std::int64_t to, const std::byte* source,
                                 std::byte* destination) const {
  const bool outside = from >= source_end_ || from + source_pitch_[dim] <= source_begin_ || to >= destination_end_ ||
                       to + destination_pitch_[dim] <= destination_begin_;
  if (outside) return 0;
  if (dim == overlaps_.size()) return copy_run(from, to, 1, source, destination);
  const std::int64_t from_pitch = source_pitch_[dim + 1];
  const std::int64_t to_pitch = destination_pitch_[dim + 1];
  std::int64_t copied = 0;
  for (const Overlap& each : overlaps_[dim]) {
    if (destination == nullptr && copied > 0) return copied;
    const std::int64_t first_from = from + each.source * from_pitch;
    const std::int64_t first_to = to + each.destination * to_pitch;
    if (dim + 1 == overlaps_.size()) {
      copied += copy_run(first_from, first_to, each.length, source, destination);
      continue;
    }
    for (std::int64_t i = 0; i < each.length && (destination != nullptr || copied == 0); ++i) {
      copied += copy_dims(dim + 1, first_from + i * from_pitch, first_to + i * to_pitch, source, destination);
    }
  }
  return copied;
}

std::int64_t PartCopy::copy_run(std::int64_t from, std::int64_t to, std::int64_t length, const std::byte* source,
                                std::byte* destination) const {
  const std::int64_t first = std::max({std::int64_t{0}, source_begin_ - from, destination_begin_ - to});
  const std::int64_t last = std::min({length, source_end_ - from, destination_end_ - to});
  if (first >= last || destination == nullptr) return std::max<std::int64_t>(0, last - first);
  std::memcpy(destination + (to + first - destination_begin_) * element_bytes_,
              source + (from + first - source_begin_) * element_bytes_,
              static_cast<std::size_t>((last - first) * element_bytes_));
  return last - first;
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

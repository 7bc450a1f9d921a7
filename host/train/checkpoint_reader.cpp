#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include "strata/error.hpp"
#include "train/checkpoint.hpp"
#include "train/checkpoint_names.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// A run of indices that a piece and a shard share.
struct Overlap {
  std::int64_t source = 0;
  std::int64_t destination = 0;
  std::int64_t length = 0;
};

std::vector<Overlap> overlaps(const IndexMap& source, const IndexMap& destination) {
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

/// Copies the overlap of two row-major blocks, dimension by dimension.
class BlockCopy {
 public:
  BlockCopy(const std::vector<IndexMap>& source, const std::vector<IndexMap>& destination, std::size_t element_bytes)
      : source_pitch_(source.size() + 1), destination_pitch_(source.size() + 1) {
    source_pitch_.back() = destination_pitch_.back() = static_cast<std::int64_t>(element_bytes);
    for (std::size_t dim = source.size(); dim-- > 0;) {
      source_pitch_[dim] = source_pitch_[dim + 1] * source[dim].local_size();
      destination_pitch_[dim] = destination_pitch_[dim + 1] * destination[dim].local_size();
    }
    for (std::size_t dim = 0; dim < source.size(); ++dim) overlaps_.push_back(overlaps(source[dim], destination[dim]));
  }

  /// \return bytes copied.
  std::int64_t run(const std::byte* source, std::byte* destination, std::size_t dim = 0) const {
    if (dim == overlaps_.size()) {
      std::memcpy(destination, source, static_cast<std::size_t>(source_pitch_[dim]));
      return source_pitch_[dim];
    }
    const std::int64_t from_pitch = source_pitch_[dim + 1];
    const std::int64_t to_pitch = destination_pitch_[dim + 1];
    std::int64_t copied = 0;
    for (const Overlap& each : overlaps_[dim]) {
      if (dim + 1 == overlaps_.size()) {
        std::memcpy(destination + each.destination * to_pitch, source + each.source * from_pitch,
                    static_cast<std::size_t>(each.length * to_pitch));
        copied += each.length * to_pitch;
        continue;
      }
      for (std::int64_t i = 0; i < each.length; ++i) {
        copied +=
            run(source + (each.source + i) * from_pitch, destination + (each.destination + i) * to_pitch, dim + 1);
      }
    }
    return copied;
  }

 private:
  std::vector<std::int64_t> source_pitch_;
  std::vector<std::int64_t> destination_pitch_;
  std::vector<std::vector<Overlap>> overlaps_;
};

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? " " : "") + std::to_string(size);
  return text + "]";
}

template <class From, class To>
void convert(const std::vector<std::byte>& from, void* to) {
  const auto* source = reinterpret_cast<const From*>(from.data());
  std::transform(source, source + from.size() / sizeof(From), static_cast<To*>(to),
                 [](From value) { return static_cast<To>(value); });
}

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / kManifestName, ignored);
}

/// The checkpoint that `latest` names, else the one with the most steps; empty if there is none.
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
  throw ConfigurationError("'" + given.string() + "': no checkpoint is there; expected a folder with a " +
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

void CheckpointReader::gather(const ManifestTensor& tensor, const std::vector<IndexMap>& dims,
                              std::byte* destination) const {
  const std::size_t element_bytes = size_of(tensor.dtype);
  std::int64_t missing = element_count(local_shape(dims)) * static_cast<std::int64_t>(element_bytes);
  for (const ManifestPiece& piece : tensor.pieces) {
    const SafetensorsFile& file = *files_.at(piece.file);
    const auto found = file.tensors().find(piece.key);
    if (found == file.tensors().end() || found->second.tensor.dtype != tensor.dtype ||
        found->second.tensor.shape != local_shape(piece.dims)) {
      throw RuntimeError("'" + (directory_ / piece.file).string() + "' lacks '" + piece.key +
                         "' as the manifest describes it");
    }
    missing -= BlockCopy(piece.dims, dims, element_bytes).run(found->second.data.data(), destination);
  }
  if (missing != 0) throw RuntimeError("the pieces do not cover the tensor");
}

void CheckpointReader::read(const std::string& tensor, const std::vector<IndexMap>& dims, DType dtype,
                            void* destination) const {
  const auto wrong = [&](const std::string& what) {
    return RuntimeError("checkpoint '" + directory_.string() + "': tensor '" + tensor + "' " + what);
  };
  const auto found = manifest_.tensors.find(tensor);
  if (found == manifest_.tensors.end()) throw wrong("is missing; was it written by another model or optimizer?");
  Shape shape;
  for (const IndexMap& dim : dims) shape.push_back(dim.global_size);
  const ManifestTensor& stored = found->second;
  if (stored.shape != shape) {
    throw wrong("has shape " + to_text(stored.shape) + "; this run's model has " + to_text(shape));
  }
  if (stored.dtype == dtype) {
    gather(stored, dims, static_cast<std::byte*>(destination));
    return;
  }
  std::vector<std::byte> buffer(static_cast<std::size_t>(element_count(local_shape(dims))) * size_of(stored.dtype));
  gather(stored, dims, buffer.data());
  if (stored.dtype == DType::f32 && dtype == DType::f64) {
    convert<float, double>(buffer, destination);
  } else if (stored.dtype == DType::f64 && dtype == DType::f32) {
    convert<double, float>(buffer, destination);
  } else {
    throw wrong("has type " + std::string(to_string(stored.dtype)) + "; this run needs " +
                std::string(to_string(dtype)));
  }
}

void CheckpointReader::restore(const Program& program, int rank, const WriteBuffer& write) const {
  std::vector<std::byte> data;
  for (const PersistentTensor& tensor : persistent_tensors(program)) {
    const std::vector<IndexMap> dims = index_maps(tensor, program.mesh, rank);
    data.resize(static_cast<std::size_t>(element_count(local_shape(dims))) * size_of(tensor.dtype));
    read(tensor.name, dims, tensor.dtype, data.data());
    write(tensor.buffer, data.data());
  }
}

}  // namespace strata::host

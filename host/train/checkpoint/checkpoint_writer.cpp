#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "strata/error.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/checkpoint/checkpoint_names.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// Bytes that a checkpoint needs in addition to its tensors.
constexpr std::uint64_t kSpareBytes = 1U << 20U;

std::string rank_file(int rank, const char* suffix) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "rank-%05d%s", rank, suffix);
  return name.data();
}

/// Suffix of the file in which a rank records what it has written, for the process that writes the manifest.
constexpr const char* kRecordSuffix = ".record";
constexpr const char* kTensorSuffix = ".safetensors";

void write_text(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.finish();
}

}  // namespace

std::string checkpoint_name(std::uint64_t step) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "step-%08" PRIu64, step);
  return name.data();
}

std::optional<std::uint64_t> step_of_checkpoint(const fs::path& directory) {
  const std::string name = directory.filename().string();
  constexpr std::string_view kPrefix = "step-";
  std::uint64_t step = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return step;
}

fs::path CheckpointStore::path_of(std::uint64_t step) const { return directory_ / checkpoint_name(step); }

void CheckpointStore::prepare(std::uint64_t bytes) const {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) throw RuntimeError("'" + directory_.string() + "': cannot be created: " + error.message());
  clean(0);
  const fs::path probe = directory_ / ".probe";
  OutputFile(probe).finish();
  fs::remove(probe, error);
  const std::uint64_t available = free_bytes(directory_);
  if (available < bytes + kSpareBytes) {
    throw RuntimeError("'" + directory_.string() + "': a checkpoint needs " + std::to_string(bytes + kSpareBytes) +
                       " bytes, but " + std::to_string(available) + " are free");
  }
}

void CheckpointStore::clean(std::uint64_t step) const {
  std::error_code ignored;
  std::vector<std::pair<std::uint64_t, fs::path>> checkpoints;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find(kTemporaryMark) != std::string::npos) {
      std::error_code failure;
      fs::remove_all(entry.path(), failure);
    } else if (const auto found = step_of_checkpoint(entry.path()); found && *found <= step) {
      checkpoints.emplace_back(*found, entry.path());
    }
  }
  if (keep_ <= 0 || checkpoints.size() <= static_cast<std::size_t>(keep_)) return;
  std::sort(checkpoints.begin(), checkpoints.end());
  checkpoints.resize(checkpoints.size() - static_cast<std::size_t>(keep_));
  for (const auto& [old_step, path] : checkpoints) {
    // Rename first, so that an interrupted removal does not leave half a checkpoint under a final name.
    const fs::path doomed = path.string() + std::string(kTemporaryMark) + "old";
    std::error_code failure;
    fs::rename(path, doomed, failure);
    if (!failure) fs::remove_all(doomed, failure);
  }
}

CheckpointWriter::CheckpointWriter(const CheckpointStore& store, const std::vector<CheckpointTensor>& plan,
                                   RunState run, const std::string& tag)
    : store_(store),
      plan_(plan),
      run_(std::move(run)),
      temporary_(store.path_of(run_.step).string() + std::string(kTemporaryMark) + tag) {}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;
  if (begun_) fs::remove_all(temporary_, ignored);
}

void CheckpointWriter::begin() {
  std::error_code error;
  fs::create_directories(temporary_, error);
  if (error) throw RuntimeError("'" + temporary_.string() + "': cannot be created: " + error.message());
  begun_ = true;
}

void CheckpointWriter::write_rank(int rank, const ReadSlice& read) const {
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, BufferSlice> sources;
  for (const CheckpointTensor& tensor : plan_) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      if (piece.rank != rank) continue;
      if (!sources.emplace(tensor.name, piece.source).second) {
        throw VerificationError("rank " + std::to_string(rank) + " holds two parts of '" + tensor.name + "'");
      }
      tensors.push_back({tensor.name, tensor.dtype, piece.part.shape()});
    }
  }
  if (tensors.empty()) return;
  sort_for_safetensors(tensors);
  OutputFile file(temporary_ / rank_file(rank, kTensorSuffix));
  const std::string header = safetensors_header(tensors, {{"format", "strata"}, {"step", std::to_string(run_.step)}});
  file.write(header.data(), header.size());
  std::vector<std::byte> data;
  for (const SafetensorsTensor& tensor : tensors) {
    data.resize(tensor.bytes());
    read(sources.at(tensor.name), data.data());
    file.write(data.data(), data.size());
  }
  file.finish();
  const nlohmann::json record = {{"bytes", file.bytes()}, {"xxh3_128", file.checksum()}};
  write_text(temporary_ / rank_file(rank, kRecordSuffix), record.dump());
}

Manifest CheckpointWriter::manifest() const {
  Manifest manifest;
  manifest.run = run_;
  for (const CheckpointTensor& tensor : plan_) {
    ManifestTensor& entry = manifest.tensors[tensor.name];
    entry.dtype = tensor.dtype;
    entry.shape = tensor.shape;
    for (const CheckpointPiece& piece : tensor.pieces) {
      const std::string name = rank_file(piece.rank, kTensorSuffix);
      entry.pieces.push_back({name, tensor.name, piece.part});
      if (manifest.files.contains(name)) continue;
      const fs::path path = temporary_ / rank_file(piece.rank, kRecordSuffix);
      const MappedFile file(path);
      const auto* text = reinterpret_cast<const char*>(file.bytes().data());
      const nlohmann::json record = nlohmann::json::parse(text, text + file.bytes().size(), nullptr, false);
      if (!record.is_object()) throw RuntimeError("'" + path.string() + "': is no record of a written file");
      manifest.files[name] = {record.at("bytes").get<std::uint64_t>(), record.at("xxh3_128").get<std::string>()};
    }
  }
  return manifest;
}

fs::path CheckpointWriter::commit() {
  const Manifest contents = manifest();
  for (const auto& [name, file] : contents.files) {
    fs::remove(fs::path(temporary_ / name).replace_extension(kRecordSuffix));
  }
  write_text(temporary_ / kManifestName, to_json(contents));
  sync_directory(temporary_);
  const fs::path path = store_.path_of(run_.step);
  rename_or_exchange(temporary_, path);
  sync_directory(store_.directory());
  replace_file(store_.directory() / kLatestName, path.filename().string() + "\n");
  // An older checkpoint of the same step has got the temporary name, and clean() removes it.
  store_.clean(run_.step);
  begun_ = false;
  return path;
}

}  // namespace strata::host

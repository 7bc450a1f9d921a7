#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_plan.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The piece of `stored` that is `planned`, in the file `name`. Null if there is none with a checksum.
const ManifestPiece* find_piece(const ManifestTensor& stored, const TensorPart& planned, const std::string& name) {
  const auto found = std::ranges::find_if(stored.pieces, [&](const ManifestPiece& each) {
    return each.file == name && each.part == planned && !each.checksum.empty();
  });
  return found == stored.pieces.end() ? nullptr : &*found;
}

std::size_t count_pieces(const Manifest& manifest, const std::string& file) {
  std::size_t count = 0;
  for (const auto& [name, tensor] : manifest.tensors) {
    count += static_cast<std::size_t>(std::ranges::count(tensor.pieces, file, &ManifestPiece::file));
  }
  return count;
}

namespace fs = std::filesystem;

using nlohmann::json;

/// Bytes of one write, few enough that checksum and write use the processor's caches.
constexpr std::uint64_t kLargestWrite = 1U << 20U;

/// Suffix of the file in which a rank records what it has written, for the process that writes the manifest.
constexpr const char* kRecordSuffix = ".record";

/// The manifest of a checkpoint. Empty without a readable one.
std::optional<Manifest> manifest_of(const fs::path& checkpoint) {
  if (checkpoint.empty()) return std::nullopt;
  try {
    return read_manifest(checkpoint / kManifestName);
  } catch (const RuntimeError&) {
    return std::nullopt;
  }
}

/// The checksums of a rank's frozen pieces, by tensor, if the rank's file of frozen tensors in the checkpoint `base`
/// has exactly those of `plan`. Empty if it has others. Whether the values are the same, the caller knows.
std::optional<std::map<std::string, std::string>> frozen_checksums(const Manifest& base, const CheckpointPlan& plan,
                                                                   int rank) {
  const std::string name = file_stem(rank, RankFile::frozen) + kTensorSuffix;
  std::map<std::string, std::string> checksums;
  for (const CheckpointTensor& tensor : plan.tensors()) {
    const auto piece = tensor.frozen ? plan.piece(tensor, rank) : std::nullopt;
    if (!piece) continue;
    const auto stored = base.tensors.find(tensor.name);
    if (stored == base.tensors.end() || stored->second.dtype != tensor.dtype) return std::nullopt;
    const ManifestPiece* found = find_piece(stored->second, piece->part, name);
    if (found == nullptr || found->key != tensor.name) return std::nullopt;
    checksums[tensor.name] = found->checksum;
  }
  if (!base.files.contains(name) || count_pieces(base, name) != checksums.size()) return std::nullopt;
  return checksums;
}

}  // namespace

bool has_frozen_files(const Manifest& base, const CheckpointPlan& plan) {
  std::set<int> ranks;
  for (const CheckpointTensor& tensor : plan.tensors()) {
    if (!tensor.frozen) continue;
    for (const CheckpointPiece& piece : plan.pieces(tensor)) ranks.insert(piece.rank);
  }
  return std::ranges::all_of(ranks, [&](int rank) { return frozen_checksums(base, plan, rank).has_value(); });
}

std::map<std::string, ManifestFile> write_model_files(const fs::path& checkpoint, const ModelFiles& files,
                                                      const Disk& disk) {
  std::map<std::string, ManifestFile> entries;
  if (files.empty()) return entries;
  make_directories(checkpoint / kModelFilesFolder, disk);
  for (const ModelFile& each : files) {
    const std::string path = std::string(kModelFilesFolder) + "/" + each.name;
    OutputFile file(checkpoint / path, disk);
    file.write(each.bytes.data(), each.bytes.size());
    file.finish();
    entries[path] = {file.bytes(), file.checksum()};
  }
  sync_directory(checkpoint / kModelFilesFolder, disk);
  return entries;
}

CheckpointWriter::CheckpointWriter(const CheckpointStore& store, const CheckpointPlan& plan, RunState run,
                                   const std::string& tag, fs::path base)
    : store_(store),
      plan_(plan),
      run_(std::move(run)),
      temporary_(store.path_of(run_.step).string() + std::string(kTemporaryMark) + tag),
      base_(std::move(base)) {}

CheckpointWriter::~CheckpointWriter() { abandon(); }

void CheckpointWriter::abandon() {
  std::error_code ignored;
  if (std::exchange(begun_, false)) fs::remove_all(temporary_, ignored);
}

void CheckpointWriter::begin() {
  begun_ = true;
  std::uint64_t bytes = checkpoint_bytes(plan_);
  const std::optional<Manifest> base = manifest_of(base_);
  if (base && has_frozen_files(*base, plan_) && store_.can_link(base_ / kManifestName)) bytes -= frozen_bytes(plan_);
  store_.require_space(bytes, temporary_);
  make_directories(temporary_, store_.disk());
}

void CheckpointWriter::write_text(const fs::path& path, const std::string& text) const {
  OutputFile file(path, store_.disk());
  file.write(text.data(), text.size());
  file.finish();
}

void CheckpointWriter::write_rank(int rank, const ReadSlice& read) const {
  for (const RankFile file : {RankFile::changing, RankFile::frozen}) {
    if (file == RankFile::frozen && share_frozen(rank)) continue;
    const std::vector<RankPiece> pieces = rank_pieces(plan_, rank, file);
    std::vector<std::byte> data;
    std::size_t used = 0;
    auto piece = pieces.begin();
    write_file(rank, file, pieces, [&](std::size_t most) -> std::span<const std::byte> {
      if (used == data.size()) {
        data.resize(piece->tensor.bytes());
        read(piece->source, data.data());
        ++piece;
        used = 0;
      }
      const std::span<const std::byte> bytes(data.data() + used, std::min(most, data.size() - used));
      used += bytes.size();
      return bytes;
    });
  }
}

bool CheckpointWriter::share_frozen(int rank) const {
  const std::optional<Manifest> base = manifest_of(base_);
  const auto checksums = base ? frozen_checksums(*base, plan_, rank) : std::nullopt;
  if (!checksums) return false;
  const std::string stem = file_stem(rank, RankFile::frozen);
  const std::string name = stem + kTensorSuffix;
  const ManifestFile& file = base->files.at(name);
  try {
    // A damaged file must not become a part of later checkpoints.
    if (checksum_of(MappedFile(base_ / name).bytes()) != file.checksum) return false;
  } catch (const RuntimeError&) {
    return false;
  }
  make_directories(temporary_, store_.disk());
  if (store_.disk().link(base_ / name, temporary_ / name) != 0) return false;
  write_record(stem, file, *checksums);
  return true;
}

void CheckpointWriter::write_record(const std::string& stem, const ManifestFile& file,
                                    const std::map<std::string, std::string>& pieces) const {
  const json record = {{"bytes", file.bytes}, {"xxh3_128", file.checksum}, {"pieces", pieces}};
  write_text(temporary_ / (stem + kRecordSuffix), json_text(record));
}

void CheckpointWriter::write_file(int rank, RankFile kind, const std::vector<RankPiece>& pieces,
                                  const NextBytes& next) const {
  if (pieces.empty()) return;
  // Each process may be the first to write.
  make_directories(temporary_, store_.disk());
  std::vector<SafetensorsTensor> tensors;
  for (const RankPiece& piece : pieces) tensors.push_back(piece.tensor);
  const std::string stem = file_stem(rank, kind);
  OutputFile file(temporary_ / (stem + kTensorSuffix), store_.disk());
  std::map<std::string, std::string> metadata{{"format", "strata"}};
  // Frozen files belong to many steps.
  if (kind == RankFile::changing) metadata["step"] = std::to_string(run_.step);
  const std::string header = safetensors_header(tensors, metadata);
  file.write(header.data(), header.size());
  std::map<std::string, std::string> checksums;
  for (const SafetensorsTensor& tensor : tensors) {
    Checksum checksum;
    for (std::uint64_t left = tensor.bytes(); left > 0;) {
      const std::span<const std::byte> bytes = next(std::min(left, kLargestWrite));
      checksum.update(bytes.data(), bytes.size());
      file.write(bytes.data(), bytes.size());
      left -= bytes.size();
    }
    checksums[tensor.name] = checksum.hex();
  }
  file.finish();
  write_record(stem, {file.bytes(), file.checksum()}, checksums);
}

Manifest CheckpointWriter::manifest() const {
  Manifest manifest;
  manifest.run = run_;
  std::map<std::string, std::map<std::string, std::string>> checksums;
  for (const CheckpointTensor& tensor : plan_.tensors()) {
    ManifestTensor& entry = manifest.tensors[tensor.name];
    entry.dtype = tensor.dtype;
    entry.shape = tensor.shape;
    for (const CheckpointPiece& piece : plan_.pieces(tensor)) {
      const std::string stem = file_stem(piece.rank, tensor.frozen ? RankFile::frozen : RankFile::changing);
      const std::string name = stem + kTensorSuffix;
      if (!manifest.files.contains(name)) {
        const fs::path path = temporary_ / (stem + kRecordSuffix);
        const json content = read_json_file(path);
        const JsonValue record(content, path);
        manifest.files[name] = {record.at("bytes").integer<std::uint64_t>(), record.at("xxh3_128").string()};
        for (const auto& [key, checksum] : record.at("pieces").items()) checksums[name][key] = checksum.string();
      }
      entry.pieces.push_back({name, tensor.name, piece.part, checksums[name].at(tensor.name)});
    }
  }
  return manifest;
}

fs::path CheckpointWriter::commit() {
  Manifest contents = manifest();
  for (const auto& [name, file] : contents.files) {
    fs::remove(fs::path(temporary_ / name).replace_extension(kRecordSuffix));
  }
  if (run_.model_files) contents.files.merge(write_model_files(temporary_, *run_.model_files, store_.disk()));
  // The manifest and the entries of all files reach the disk before the folder gets its final name.
  write_text(temporary_ / kManifestName, to_json(contents));
  sync_directory(temporary_, store_.disk());
  store_.put_in_place(temporary_, run_.step);
  begun_ = false;
  const fs::path path = store_.path_of(run_.step);
  remark_ = store_.set_latest(path);
  // An older checkpoint of the same step has got the temporary name, and clean() removes it.
  store_.clean(run_.step);
  return path;
}

}  // namespace strata::host

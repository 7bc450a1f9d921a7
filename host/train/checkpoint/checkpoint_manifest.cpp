#include "train/checkpoint/checkpoint_manifest.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "strata/error.hpp"
#include "train/checkpoint/file_io.hpp"
#include "train/checkpoint/health_json.hpp"
#include "train/checkpoint/json_text.hpp"
#include "train/checkpoint/model_files.hpp"
#include "train/checkpoint/part_cover.hpp"

namespace strata::host {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "strata-checkpoint";
constexpr int kVersion = 4;
/// Version 1 stored whole blocks only, and no pieces of buckets. Version 2 had no data, and a vocabulary always.
/// Version 3 had no checksums of pieces.
constexpr int kOldestVersion = 1;

/// Elements that a tensor may have, so that sizes in bytes cannot overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 56U;

constexpr std::array<std::pair<Vocabulary::Kind, const char*>, 3> kVocabularies{
    {{Vocabulary::Kind::bytes, "bytes"},
     {Vocabulary::Kind::characters, "chars"},
     {Vocabulary::Kind::tokens, "tokens"}}};

/// Sizes of a tensor, each at least 1.
Shape parse_shape(const json& value) {
  Shape shape;
  std::int64_t elements = 1;
  for (const json& each : value) {
    const auto size = integer<std::int64_t>(each);
    if (size < 1 || size > kMostElements / elements) throw RuntimeError("has the impossible shape " + value.dump());
    elements *= size;
    shape.push_back(size);
  }
  return shape;
}

std::string checksum_of_json(const json& value) {
  const std::string text = value.dump();
  return checksum_of(std::as_bytes(std::span(text)));
}

json vocabulary_json(const Vocabulary& vocabulary) {
  json result = json::object();
  for (const auto& [kind, name] : kVocabularies) {
    if (kind == vocabulary.kind) result["kind"] = name;
  }
  if (vocabulary.kind == Vocabulary::Kind::characters) {
    result["characters"] = std::vector<std::uint32_t>(vocabulary.characters.begin(), vocabulary.characters.end());
  }
  return result;
}

Vocabulary parse_vocabulary(const json& value) {
  Vocabulary vocabulary;
  const auto name = value.at("kind").get<std::string>();
  const auto found =
      std::find_if(kVocabularies.begin(), kVocabularies.end(), [&](const auto& each) { return name == each.second; });
  if (found == kVocabularies.end()) throw RuntimeError("unknown vocabulary '" + name + "'");
  vocabulary.kind = found->first;
  if (vocabulary.kind == Vocabulary::Kind::characters) {
    for (const json& each : value.at("characters")) vocabulary.characters.push_back(integer<std::uint32_t>(each));
  }
  return vocabulary;
}

json data_json(const DataState& data) {
  return {{"fingerprint", data.fingerprint}, {"description", data.description}, {"sizes", data.sizes}};
}

DataState parse_data(const json& value) {
  DataState data{value.at("fingerprint").get<std::string>(), value.at("description").get<std::string>(), {}};
  for (const auto& [dim, size] : value.at("sizes").items()) data.sizes[dim] = integer<std::int64_t>(size);
  return data;
}

json loss_scaler_json(const LossScalerState& state) {
  return {{"scale", state.scale}, {"good_steps", state.good_steps}, {"skipped_steps", state.skipped_steps}};
}

LossScalerState parse_loss_scaler(const json& value) {
  LossScalerState state{value.at("scale").get<double>(), integer<int>(value.at("good_steps")),
                        integer<std::uint64_t>(value.at("skipped_steps"))};
  if (!(state.scale > 0) || state.good_steps < 0) throw RuntimeError("the state of its loss scaler is impossible");
  return state;
}

json piece_json(const ManifestPiece& piece) {
  json dims = json::array();
  for (const IndexMap& map : piece.part.dims) {
    json segments = json::array();
    for (const IndexSegment& each : map.segments) segments.push_back({each.global_begin, each.length});
    dims.push_back(std::move(segments));
  }
  json result = {{"file", piece.file}, {"key", piece.key}, {"dims", std::move(dims)}};
  if (!piece.part.is_block()) result["elements"] = {piece.part.begin, piece.part.end};
  if (!piece.checksum.empty()) result["xxh3_128"] = piece.checksum;
  return result;
}

IndexMap parse_dim(const json& segments, std::int64_t size) {
  IndexMap map{size, {}};
  std::int64_t local = 0;
  for (const json& each : segments) {
    const IndexSegment segment{local, integer<std::int64_t>(each.at(0)), integer<std::int64_t>(each.at(1))};
    if (segment.global_begin < 0 || segment.length < 1 || segment.length > size - local ||
        segment.global_begin > size - segment.length) {
      throw RuntimeError("a piece lies outside of its tensor");
    }
    local += segment.length;
    map.segments.push_back(segment);
  }
  return map;
}

ManifestPiece parse_piece(const json& value, const Shape& shape) {
  const json& dims = value.at("dims");
  if (dims.size() != shape.size()) throw RuntimeError("a piece has another number of dimensions than its tensor");
  std::vector<IndexMap> maps;
  for (std::size_t i = 0; i < shape.size(); ++i) maps.push_back(parse_dim(dims[i], shape[i]));
  TensorPart part = TensorPart::block(std::move(maps));
  if (value.contains("elements")) {
    const std::int64_t block = part.elements();
    part.begin = integer<std::int64_t>(value["elements"].at(0));
    part.end = integer<std::int64_t>(value["elements"].at(1));
    if (part.begin < 0 || part.begin >= part.end || part.end > block) {
      throw RuntimeError("a piece lies outside of its block");
    }
  }
  const std::string checksum = value.contains("xxh3_128") ? value["xxh3_128"].get<std::string>() : "";
  return {value.at("file").get<std::string>(), value.at("key").get<std::string>(), std::move(part), checksum};
}

json tensor_json(const ManifestTensor& tensor) {
  json pieces = json::array();
  for (const ManifestPiece& piece : tensor.pieces) pieces.push_back(piece_json(piece));
  return {{"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
}

ManifestTensor parse_tensor(const std::string& name, const json& value) {
  ManifestTensor tensor;
  tensor.dtype = dtype_from_string(value.at("dtype").get<std::string>());
  tensor.shape = parse_shape(value.at("shape"));
  std::vector<TensorPart> parts;
  for (const json& each : value.at("pieces")) {
    tensor.pieces.push_back(parse_piece(each, tensor.shape));
    parts.push_back(tensor.pieces.back().part);
  }
  if (const auto fault = find_cover_fault(tensor.shape, parts)) {
    throw RuntimeError("the pieces of '" + name + "' do not make it whole: " + *fault);
  }
  return tensor;
}

Manifest parse_manifest(const json& value) {
  Manifest manifest;
  manifest.run.step = integer<std::uint64_t>(value.at("step"));
  manifest.run.seed = integer<std::uint64_t>(value.at("seed"));
  manifest.run.samples = integer<std::uint64_t>(value.at("samples"));
  manifest.run.configuration = value.at("configuration").get<std::string>();
  if (value.contains("vocabulary")) manifest.run.vocabulary = parse_vocabulary(value["vocabulary"]);
  if (value.contains("data")) manifest.run.data = parse_data(value["data"]);
  manifest.run.identity = value.value("identity", "");
  manifest.run.evaluation_due = value.value("evaluation_due", false);
  if (value.contains("loss_scaler")) manifest.run.loss_scaler = parse_loss_scaler(value["loss_scaler"]);
  if (value.contains("health")) manifest.run.health = health_from_json(value["health"]);
  const json types = value.value("published_types", json::object());
  for (const auto& [name, type] : types.items()) {
    manifest.run.published_types[name] = dtype_from_string(type.get<std::string>());
  }
  for (const auto& [name, file] : value.at("files").items()) {
    // A file name must not lead out of the checkpoint's folder.
    if (!is_plain_name(name) && !is_model_file(name)) {
      throw RuntimeError("'" + name + "' is no name of a checkpoint's file");
    }
    manifest.files[name] = {integer<std::uint64_t>(file.at("bytes")), file.at("xxh3_128").get<std::string>()};
  }
  for (const auto& [name, tensor] : value.at("tensors").items()) {
    manifest.tensors[name] = parse_tensor(name, tensor);
    for (const ManifestPiece& piece : manifest.tensors[name].pieces) {
      if (!manifest.files.contains(piece.file))
        throw RuntimeError("unknown file '" + piece.file + "' of '" + name + "'");
    }
  }
  return manifest;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  json value = {{"format", kFormat},
                {"version", kVersion},
                {"step", manifest.run.step},
                {"seed", manifest.run.seed},
                {"samples", manifest.run.samples},
                {"configuration", manifest.run.configuration},
                {"files", json::object()},
                {"tensors", json::object()}};
  if (manifest.run.vocabulary) value["vocabulary"] = vocabulary_json(*manifest.run.vocabulary);
  if (manifest.run.data) value["data"] = data_json(*manifest.run.data);
  if (!manifest.run.identity.empty()) value["identity"] = manifest.run.identity;
  if (manifest.run.evaluation_due) value["evaluation_due"] = true;
  if (manifest.run.loss_scaler) value["loss_scaler"] = loss_scaler_json(*manifest.run.loss_scaler);
  if (manifest.run.health) value["health"] = health_json(*manifest.run.health);
  for (const auto& [name, type] : manifest.run.published_types) value["published_types"][name] = to_string(type);
  for (const auto& [name, file] : manifest.files)
    value["files"][name] = {{"bytes", file.bytes}, {"xxh3_128", file.checksum}};
  for (const auto& [name, tensor] : manifest.tensors) value["tensors"][name] = tensor_json(tensor);
  const std::string checksum = checksum_of_json(value);
  value["xxh3_128"] = checksum;
  return value.dump(1) + "\n";
}

Manifest manifest_from_json(const std::string& text) {
  json value = parse_json_text(text);
  if (!value.is_object()) throw RuntimeError("is truncated or no JSON object");
  if (value.value("format", json()) != kFormat) throw RuntimeError("is no manifest of a checkpoint");
  const json version = value.value("version", json());
  if (!version.is_number_integer() || version < kOldestVersion || version > kVersion) {
    throw RuntimeError("has format version " + version.dump() + "; versions " + std::to_string(kOldestVersion) +
                       " to " + std::to_string(kVersion) + " are accepted");
  }
  const json checksum = value.value("xxh3_128", json());
  value.erase("xxh3_128");
  if (checksum != checksum_of_json(value)) throw RuntimeError("was altered: its checksum does not fit");
  try {
    return parse_manifest(value);
  } catch (const json::exception& error) {
    throw RuntimeError(std::string("is no complete manifest: ") + error.what());
  }
}

Manifest read_manifest(const std::filesystem::path& path) {
  const MappedFile file(path);
  try {
    return manifest_from_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  } catch (const Error& error) {
    throw RuntimeError("'" + path.string() + "' " + error.what());
  }
}

}  // namespace strata::host

#include "checkpoint/checkpoint_manifest.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/tensor_cover.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "strata-checkpoint";
constexpr int kVersion = 4;

/// Elements that a tensor may have, so that sizes in bytes cannot overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 56U;

constexpr std::array<std::pair<Vocabulary::Kind, const char*>, 3> kVocabularies{
    {{Vocabulary::Kind::bytes, "bytes"},
     {Vocabulary::Kind::characters, "chars"},
     {Vocabulary::Kind::tokens, "tokens"}}};

/// Sizes of a tensor, each at least 1.
Shape parse_shape(const JsonValue& value) {
  Shape shape;
  std::int64_t elements = 1;
  for (const JsonValue& each : value.elements()) {
    const auto size = each.integer<std::int64_t>();
    if (size < 1 || size > kMostElements / elements) {
      each.refuse("sizes from 1 on, with at most " + std::to_string(kMostElements) + " elements in all");
    }
    elements *= size;
    shape.push_back(size);
  }
  return shape;
}

std::string checksum_of_json(const json& value) {
  const std::string text = json_text(value);
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

Vocabulary parse_vocabulary(const JsonValue& value) {
  Vocabulary vocabulary;
  const std::string name = value.at("kind").string();
  const auto found = std::ranges::find_if(kVocabularies, [&](const auto& each) { return name == each.second; });
  if (found == kVocabularies.end()) value.at("kind").refuse("bytes, chars, tokens");
  vocabulary.kind = found->first;
  if (vocabulary.kind == Vocabulary::Kind::characters) {
    for (const JsonValue& each : value.at("characters").elements()) {
      vocabulary.characters.push_back(each.integer<std::uint32_t>());
    }
  }
  return vocabulary;
}

json data_json(const DataState& data) {
  return {{"fingerprint", data.fingerprint}, {"description", data.description}, {"sizes", data.sizes}};
}

DataState parse_data(const JsonValue& value) {
  DataState data{value.at("fingerprint").string(), value.at("description").string(), {}};
  for (const auto& [dim, size] : value.at("sizes").items()) data.sizes[dim] = size.integer<std::int64_t>();
  return data;
}

json loss_scaler_json(const LossScalerState& state) {
  return {{"scale", state.scale}, {"good_steps", state.good_steps}, {"skipped_steps", state.skipped_steps}};
}

LossScalerState parse_loss_scaler(const JsonValue& value) {
  LossScalerState state{value.at("scale").number(), value.at("good_steps").integer<int>(),
                        value.at("skipped_steps").integer<std::uint64_t>()};
  if (!(state.scale > 0)) value.at("scale").refuse("a number above 0");
  if (state.good_steps < 0) value.at("good_steps").refuse("a number that is not negative");
  return state;
}

json piece_json(const ManifestPiece& piece) {
  json dims = json::array();
  for (const IndexMap& map : piece.part.dims) {
    json segments = json::array();
    for (const IndexSegment& each : map.segments) segments.push_back({each.global_begin, each.length});
    dims.push_back(std::move(segments));
  }
  json result = {{"file", piece.file}, {"key", piece.key}, {"dims", std::move(dims)}, {"xxh3_128", piece.checksum}};
  if (!piece.part.is_block()) result["elements"] = {piece.part.begin, piece.part.end};
  return result;
}

IndexMap parse_dim(const JsonValue& segments, std::int64_t size) {
  IndexMap map{size, {}};
  std::int64_t local = 0;
  for (const JsonValue& each : segments.elements()) {
    const IndexSegment segment{local, each.element(0).integer<std::int64_t>(), each.element(1).integer<std::int64_t>()};
    if (segment.global_begin < 0 || segment.length < 1 || segment.length > size - local ||
        segment.global_begin > size - segment.length) {
      each.fail("lies outside of its tensor");
    }
    local += segment.length;
    map.segments.push_back(segment);
  }
  return map;
}

ManifestPiece parse_piece(const JsonValue& value, const Shape& shape) {
  const JsonValue dims = value.at("dims");
  if (dims.size() != shape.size()) dims.fail("has another number of dimensions than its tensor");
  std::vector<IndexMap> maps;
  for (std::size_t i = 0; i < shape.size(); ++i) maps.push_back(parse_dim(dims.element(i), shape[i]));
  TensorPart part = TensorPart::block(std::move(maps));
  if (const auto elements = value.find("elements")) {
    const std::int64_t block = part.elements();
    part.begin = elements->element(0).integer<std::int64_t>();
    part.end = elements->element(1).integer<std::int64_t>();
    if (part.begin < 0 || part.begin >= part.end || part.end > block) elements->fail("lies outside of its block");
  }
  return {value.at("file").string(), value.at("key").string(), std::move(part), value.at("xxh3_128").string()};
}

json tensor_json(const ManifestTensor& tensor) {
  json pieces = json::array();
  for (const ManifestPiece& piece : tensor.pieces) pieces.push_back(piece_json(piece));
  return {{"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
}

DType parse_dtype(const JsonValue& value) {
  try {
    return dtype_from_string(value.string());
  } catch (const ConfigurationError& error) {
    value.fail(error.what());
  }
}

ManifestTensor parse_tensor(const std::string& name, const JsonValue& value) {
  ManifestTensor tensor;
  tensor.dtype = parse_dtype(value.at("dtype"));
  tensor.shape = parse_shape(value.at("shape"));
  std::vector<TensorPart> parts;
  for (const JsonValue& each : value.at("pieces").elements()) {
    tensor.pieces.push_back(parse_piece(each, tensor.shape));
    parts.push_back(tensor.pieces.back().part);
  }
  if (const auto fault = find_cover_fault(tensor.shape, parts)) {
    throw RuntimeError("the pieces of '" + name + "' do not make it whole: " + *fault);
  }
  return tensor;
}

Manifest parse_manifest(const JsonValue& value) {
  Manifest manifest;
  manifest.run.step = value.at("step").integer<std::uint64_t>();
  manifest.run.seed = value.at("seed").integer<std::uint64_t>();
  manifest.run.samples = value.at("samples").integer<std::uint64_t>();
  manifest.run.configuration = value.at("configuration").string();
  if (const auto vocabulary = value.find("vocabulary")) manifest.run.vocabulary = parse_vocabulary(*vocabulary);
  if (const auto data = value.find("data")) manifest.run.data = parse_data(*data);
  manifest.run.identity = value.string_or("identity", "");
  manifest.run.evaluation_due = value.boolean_or("evaluation_due", false);
  if (const auto scaler = value.find("loss_scaler")) manifest.run.loss_scaler = parse_loss_scaler(*scaler);
  if (const auto health = value.find("health")) manifest.run.health = health_from_json(*health);
  if (const auto types = value.find("published_types")) {
    for (const auto& [name, type] : types->items()) {
      manifest.run.imported_types[name] = parse_dtype(type);
    }
  }
  for (const auto& [name, file] : value.at("files").items()) {
    // A file name must not lead out of the checkpoint's folder.
    if (!is_plain_name(name) && !is_model_file(name)) {
      throw RuntimeError("'" + name + "' is no name of a checkpoint's file");
    }
    manifest.files[name] = {file.at("bytes").integer<std::uint64_t>(), file.at("xxh3_128").string()};
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

std::vector<double> numbers(const JsonValue& list) {
  std::vector<double> values;
  for (const JsonValue& each : list.elements()) values.push_back(each.number());
  return values;
}

std::int64_t count(const JsonValue& value) {
  const auto count = value.integer<std::int64_t>();
  if (count < 0) value.refuse("a number that is not negative");
  return count;
}

}  // namespace

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? " " : "") + std::to_string(size);
  return text + "]";
}

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
  for (const auto& [name, type] : manifest.run.imported_types) value["published_types"][name] = to_string(type);
  for (const auto& [name, file] : manifest.files)
    value["files"][name] = {{"bytes", file.bytes}, {"xxh3_128", file.checksum}};
  for (const auto& [name, tensor] : manifest.tensors) value["tensors"][name] = tensor_json(tensor);
  const std::string checksum = checksum_of_json(value);
  value["xxh3_128"] = checksum;
  return json_text(value, 1) + "\n";
}

Manifest manifest_from_json(const std::string& text) {
  json value = parse_json_text(text);
  if (!value.is_object()) throw RuntimeError("is truncated or no JSON object");
  if (value.value("format", json()) != kFormat) throw RuntimeError("is no manifest of a checkpoint");
  const json version = value.value("version", json());
  if (version != kVersion) {
    throw RuntimeError("has format version " + json_text(version) + "; accepted: " + std::to_string(kVersion));
  }
  const json checksum = value.value("xxh3_128", json());
  value.erase("xxh3_128");
  if (checksum != checksum_of_json(value)) throw RuntimeError("was altered: its checksum does not fit");
  try {
    return parse_manifest(JsonValue(value));
  } catch (const ConfigurationError& error) {
    throw RuntimeError(std::string("is no complete manifest: ") + error.what());
  }
}

Manifest read_manifest(const std::filesystem::path& path) {
  const MappedFile file(path);
  try {
    return manifest_from_json(std::string(file.text()));
  } catch (const Error& error) {
    throw RuntimeError("'" + path.string() + "' " + error.what());
  }
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

bool is_model_file(std::string_view path) {
  const std::string_view folder = kModelFilesFolder;
  return path.starts_with(folder) && path.substr(folder.size()).starts_with('/') &&
         is_plain_name(path.substr(folder.size() + 1));
}

json health_json(const HealthState& state) {
  json left_out = json::array();
  for (const SampleRange& each : state.left_out) left_out.push_back({each.begin, each.end});
  json value = {{"losses", state.losses},
                {"grad_norms", state.norms},
                {"skips_in_a_row", state.skips_in_a_row},
                {"rewinds", state.rewinds},
                {"left_out_samples", std::move(left_out)}};
  if (state.rewound_to) value["rewound_to"] = *state.rewound_to;
  return value;
}

HealthState health_from_json(const JsonValue& value) {
  HealthState state{.losses = numbers(value.at("losses")),
                    .norms = numbers(value.at("grad_norms")),
                    .skips_in_a_row = count(value.at("skips_in_a_row")),
                    .rewinds = count(value.at("rewinds"))};
  if (state.losses.size() != state.norms.size()) {
    value.fail("found " + std::to_string(state.losses.size()) + " losses and " + std::to_string(state.norms.size()) +
               " grad_norms; accepted: as many of both");
  }
  for (const JsonValue& each : value.at("left_out_samples").elements()) {
    state.left_out.push_back({each.element(0).integer<std::uint64_t>(), each.element(1).integer<std::uint64_t>()});
    if (state.left_out.back().begin >= state.left_out.back().end) each.fail("is an empty range of samples");
  }
  if (const auto step = value.find("rewound_to")) state.rewound_to = step->integer<std::uint64_t>();
  return state;
}

}  // namespace strata::host

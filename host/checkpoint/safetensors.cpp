#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "files/json.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

using nlohmann::json;

/// Limit of the header's length, as in the safetensors library.
constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";
constexpr std::array<std::pair<DType, std::string_view>, 7> kNames{{{DType::f64, "F64"},
                                                                    {DType::f32, "F32"},
                                                                    {DType::bf16, "BF16"},
                                                                    {DType::f16, "F16"},
                                                                    {DType::i32, "I32"},
                                                                    {DType::i64, "I64"},
                                                                    {DType::i8, "I8"}}};

/// The format's types that Strata lacks. The first number in a name is that of the type's bits; of BOOL it is 8.
constexpr std::array<std::string_view, 15> kForeignTypes{"BOOL",    "C64",         "F4",      "F6_E2M3",     "F6_E3M2",
                                                         "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0",
                                                         "I16",     "U16",         "U32",     "U64",         "U8"};

std::string_view name_of(DType dtype) {
  return std::ranges::find_if(kNames, [&](const auto& each) { return each.first == dtype; })->second;
}

std::optional<DType> dtype_of(const std::string& name) {
  const auto* found = std::ranges::find_if(kNames, [&](const auto& each) { return each.second == name; });
  if (found == kNames.end()) return std::nullopt;
  return found->first;
}

/// Bits of an element of the type. Empty for a type that the format does not have.
std::optional<std::size_t> bits_of(const std::string& type) {
  if (const std::optional<DType> dtype = dtype_of(type)) return 8 * size_of(*dtype);
  const auto* found = std::ranges::find(kForeignTypes, type);
  if (found == kForeignTypes.end()) return std::nullopt;
  std::size_t bits = 8;
  std::from_chars(found->data() + 1, found->data() + found->size(), bits);
  return bits;
}

/// Bytes of a tensor of `shape`. Empty if they overflow, end within a byte, or a size is invalid.
std::optional<std::uint64_t> checked_bytes(const json& shape, std::size_t element_bits) {
  std::uint64_t bits = element_bits;
  bool empty = false;
  for (const json& each : shape) {
    if (!each.is_number_unsigned()) return std::nullopt;
    const auto size = each.get<std::uint64_t>();
    empty = empty || size == 0;
    if (size != 0 && bits > (std::uint64_t{1} << 62U) / size) return std::nullopt;
    bits *= std::max<std::uint64_t>(size, 1);
  }
  if (empty) return 0;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

struct Located {
  SafetensorsTensor tensor;
  /// The type, if Strata has none like it.
  std::optional<std::string> foreign_type;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Located locate_tensor(const std::string& name, const json& entry) {
  const auto wrong = [&](const std::string& what) { return RuntimeError("tensor '" + name + "' " + what); };
  const bool complete = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                        entry.contains("shape") && entry["shape"].is_array() && entry.contains("data_offsets") &&
                        entry["data_offsets"].is_array() && entry["data_offsets"].size() == 2 &&
                        entry["data_offsets"][0].is_number_unsigned() && entry["data_offsets"][1].is_number_unsigned();
  if (!complete) throw wrong("has no complete dtype, shape and data_offsets");
  Located located;
  located.tensor.name = name;
  located.begin = entry["data_offsets"][0].get<std::uint64_t>();
  located.end = entry["data_offsets"][1].get<std::uint64_t>();
  const std::string type = entry["dtype"].get<std::string>();
  const std::optional<std::size_t> bits = bits_of(type);
  if (!bits) throw wrong("has the type " + json_text(entry["dtype"]) + ", which safetensors files do not have");
  const std::optional<std::uint64_t> bytes = checked_bytes(entry["shape"], *bits);
  if (!bytes) throw wrong("has an impossible shape " + json_text(entry["shape"]));
  located.tensor.shape = entry["shape"].get<Shape>();
  if (const std::optional<DType> dtype = dtype_of(type)) {
    located.tensor.dtype = *dtype;
  } else {
    located.foreign_type = type;
  }
  if (located.end < located.begin || located.end - located.begin != *bytes) {
    throw wrong("of " + std::to_string(*bytes) + " bytes has data_offsets " + json_text(entry["data_offsets"]));
  }
  return located;
}

}  // namespace

void sort_for_safetensors(std::vector<SafetensorsTensor>& tensors) {
  std::ranges::sort(tensors, [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    const std::size_t size_a = size_of(a.dtype);
    const std::size_t size_b = size_of(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
}

std::string safetensors_header(const std::vector<SafetensorsTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.bytes();
    header[tensor.name] = {{"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  try {
    parse();
  } catch (const RuntimeError& error) {
    throw RuntimeError("'" + path.string() + "': " + error.what());
  }
}

void SafetensorsFile::parse() {
  const std::span<const std::byte> bytes = file_.bytes();
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) {
    throw RuntimeError(std::to_string(bytes.size()) + " bytes are too few for a safetensors file");
  }
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kLargestHeader || length > bytes.size() - sizeof length) {
    throw RuntimeError("announces a header of " + std::to_string(length) + " bytes, but has " +
                       std::to_string(bytes.size()) + " bytes; is it truncated, or no safetensors file?");
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + sizeof length;
  const std::string_view content(text, length);
  if (length == 0 || content.front() != '{') throw RuntimeError("the header does not begin with {");
  if (const std::size_t nul = content.find('\0'); nul != std::string_view::npos) {
    throw RuntimeError("the header has a zero byte at " + std::to_string(nul) + "; it may be padded with spaces only");
  }
  // A parser may take either of two fields of one name. By depth: the names of tensors, and an entry's fields.
  std::array<std::set<std::string>, 3> names;
  const json header = parse_json_text(content, [&](int depth, json::parse_event_t event, const json& key) {
    if (event != json::parse_event_t::key || depth > 2) return true;
    if (depth == 1) names[2].clear();
    if (!names.at(static_cast<std::size_t>(depth)).insert(key.get<std::string>()).second) {
      throw RuntimeError("the header has the name " + json_text(key) + " twice");
    }
    return true;
  });
  if (!header.is_object()) throw RuntimeError("the header is no JSON object");

  const std::span<const std::byte> data = bytes.subspan(sizeof length + length);
  std::vector<Located> located;
  for (const auto& [name, entry] : header.items()) {
    if (name != kMetadata) {
      located.push_back(locate_tensor(name, entry));
      continue;
    }
    if (entry.is_null()) continue;  // which the library accepts too
    if (!entry.is_object()) throw RuntimeError("the metadata is no JSON object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) throw RuntimeError("metadata '" + key + "' is no text");
      metadata_[key] = value.get<std::string>();
    }
  }
  std::ranges::sort(located, [](const Located& a, const Located& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t expected = 0;
  for (Located& each : located) {
    if (each.begin != expected || each.end > data.size()) {
      throw RuntimeError("tensor '" + each.tensor.name + "' lies at bytes " + std::to_string(each.begin) + " to " +
                         std::to_string(each.end) + "; expected from " + std::to_string(expected) + " on, within " +
                         std::to_string(data.size()));
    }
    expected = each.end;
    const std::string name = each.tensor.name;
    if (each.foreign_type) {
      foreign_types_[name] = *each.foreign_type;
      continue;
    }
    tensors_[name] = {std::move(each.tensor), data.subspan(each.begin, each.end - each.begin)};
  }
  if (expected != data.size()) {
    throw RuntimeError("has " + std::to_string(data.size() - expected) + " bytes that belong to no tensor");
  }
}

}  // namespace strata::host

#include "huggingface/writer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "compiler/optimizer_groups.hpp"
#include "files/json_text.hpp"
#include "huggingface/tensor_rows.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kRowsBytes = std::int64_t{8} << 20;

bool is_publishable(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

/// The type of a tensor that consists of `parts`: that of the files from which they came, or f32 if they differ.
DType dtype_of(const ExportedValues& values, const std::vector<MappedParameter>& parts,
               const ExportSettings& settings) {
  if (settings.dtype) return *settings.dtype;
  const DType first = values.imported_dtype(parts.front().where.parameter);
  const bool equal = std::all_of(parts.begin(), parts.end(), [&](const MappedParameter& each) {
    return values.imported_dtype(each.where.parameter) == first;
  });
  return equal && is_publishable(first) ? first : DType::f32;
}

/// \throws RuntimeError if a value did not fit into f16.
void require_finite_f16(const std::vector<std::byte>& data, std::size_t bytes, const std::string& tensor) {
  for (std::size_t i = 0; i + 1 < bytes; i += 2) {
    const auto high = static_cast<unsigned>(data[i + 1]);
    if ((high & 0x7cU) != 0x7cU) continue;
    throw RuntimeError("'" + tensor + "' has a value that f16 cannot hold; accepted: --dtype bf16 or f32");
  }
}

std::string file_name(std::size_t index, std::size_t count) {
  if (count == 1) return kHuggingFaceWeights;
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name.data();
}

}  // namespace

HuggingFaceWriter::HuggingFaceWriter(ExportedValues& values, const HuggingFaceLayout& layout,
                                     const std::map<std::string, Shape>& shapes, const ExportSettings& settings)
    : values_(values), layout_(layout), shapes_(shapes), files_(1) {
  std::uint64_t bytes = 0;
  for (const auto& [name, parts] : layout.by_tensor()) {
    const SafetensorsTensor tensor{name, dtype_of(values, parts, settings), parts.front().where.shape};
    if (!files_.back().empty() && bytes + tensor.bytes() > settings.shard_bytes) {
      files_.emplace_back();
      bytes = 0;
    }
    files_.back().push_back(tensor);
    bytes += tensor.bytes();
  }
  for (auto& tensors : files_) sort_for_safetensors(tensors);
}

DType HuggingFaceWriter::main_dtype() const {
  std::map<DType, std::uint64_t> bytes;
  for (const auto& tensors : files_) {
    for (const SafetensorsTensor& each : tensors) bytes[each.dtype] += each.bytes();
  }
  return std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

ModelSummary HuggingFaceWriter::summary() const {
  ModelSummary summary{.files = files_.size()};
  for (const auto& tensors : files_) {
    for (const SafetensorsTensor& each : tensors) {
      ++summary.tensors;
      summary.parameters += element_count(each.shape);
      summary.bytes += each.bytes();
    }
  }
  return summary;
}

void HuggingFaceWriter::write(const NewFolder& folder) const {
  nlohmann::json weight_map = nlohmann::json::object();
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::string name = file_name(i, files_.size());
    write_file(folder, name, files_[i]);
    for (const SafetensorsTensor& each : files_[i]) weight_map[each.name] = name;
  }
  if (files_.size() == 1) return;
  const nlohmann::json index = {{"metadata", {{"total_size", summary().bytes}}}, {"weight_map", weight_map}};
  folder.write(kHuggingFaceIndex, json_text(index, 2) + "\n");
}

void HuggingFaceWriter::write_file(const NewFolder& folder, const std::string& name,
                                   const std::vector<SafetensorsTensor>& tensors) const {
  OutputFile file(folder.temporary() / name);
  // transformers refuses files without this metadata.
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  file.write(header.data(), header.size());
  std::vector<std::byte> data;
  for (const SafetensorsTensor& each : tensors) {
    const std::vector<MappedParameter>& parts = layout_.by_tensor().at(each.name);
    const bool is_copied = std::all_of(parts.begin(), parts.end(), [&](const MappedParameter& part) {
      return values_.is_copied(part.where.parameter, each.dtype);
    });
    TensorRows rows(values_, parts, shapes_, each.dtype);
    std::int64_t step = rows.rows();
    if (rows.step() > 0) step = std::max(rows.step(), kRowsBytes / rows.row_bytes() / rows.step() * rows.step());
    for (std::int64_t begin = 0; begin < rows.rows(); begin += step) {
      const std::int64_t end = std::min(rows.rows(), begin + step);
      const auto bytes = static_cast<std::size_t>((end - begin) * rows.row_bytes());
      data.resize(bytes);
      rows.read(begin, end, data.data());
      if (each.dtype == DType::f16 && !is_copied) require_finite_f16(data, bytes, each.name);
      file.write(data.data(), bytes);
    }
  }
  file.finish();
}

}  // namespace strata::host

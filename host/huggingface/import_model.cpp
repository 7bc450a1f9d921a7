#include "huggingface/import_model.hpp"

#include <algorithm>
#include <vector>

#include "checkpoint/checkpoint_names.hpp"
#include "files/new_folder.hpp"
#include "huggingface/model_parameters.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
constexpr const char* kTensorFile = "rank-00000.safetensors";

/// Writes a parameter block by block. \return its checksum.
std::string write_parameter(const CheckpointReader& model, const SafetensorsTensor& tensor, OutputFile& file,
                            std::vector<std::byte>& block) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  const std::int64_t elements = element_count(tensor.shape);
  Checksum checksum;
  for (std::int64_t begin = 0; begin < elements; begin += kBlockBytes / size) {
    TensorPart part = TensorPart::whole(tensor.shape);
    part.begin = begin;
    part.end = std::min(elements, begin + kBlockBytes / size);
    block.resize(static_cast<std::size_t>(part.elements() * size));
    model.read(tensor.name, part, tensor.dtype, block.data());
    checksum.update(block.data(), block.size());
    file.write(block.data(), block.size());
  }
  return checksum.hex();
}

}  // namespace

ModelSummary import_model(const CheckpointReader& model, const std::filesystem::path& out) {
  NewFolder folder(out);
  Manifest manifest = model.manifest();
  ModelSummary summary;
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [name, tensor] : manifest.tensors) {
    tensors.push_back({name, tensor.dtype, tensor.shape});
    ++summary.tensors;
    summary.parameters += element_count(tensor.shape);
    summary.bytes += tensors.back().bytes();
  }
  sort_for_safetensors(tensors);
  folder.require_space(summary.bytes);
  OutputFile file(folder.temporary() / kTensorFile);
  const std::string header = safetensors_header(tensors, {{"format", "strata"}, {"step", "0"}});
  file.write(header.data(), header.size());
  std::vector<std::byte> block;
  for (const SafetensorsTensor& each : tensors) {
    const std::string checksum = write_parameter(model, each, file, block);
    manifest.tensors[each.name].pieces = {{kTensorFile, each.name, TensorPart::whole(each.shape), checksum}};
  }
  file.finish();
  manifest.files = write_model_files(folder.temporary(), model.model_files(), system_disk());
  manifest.files[kTensorFile] = {file.bytes(), file.checksum()};
  folder.write(kManifestName, to_json(manifest));
  folder.commit();
  return summary;
}

}  // namespace strata::host

#include "checkpoint/checkpoint_difference.hpp"

#include <cstddef>
#include <cstring>
#include <vector>

#include "files/text_format.hpp"
#include "runtime/element.hpp"
#include "runtime/tensor_part.hpp"

namespace strata::host {
namespace {

using Bytes = std::vector<std::byte>;

/// All of a tensor.
Bytes read_whole(const CheckpointReader& checkpoint, const std::string& name, const ManifestTensor& tensor) {
  std::vector<IndexMap> dims;
  for (const std::int64_t size : tensor.shape) dims.push_back(IndexMap::whole(size));
  const TensorPart whole = TensorPart::block(std::move(dims));
  Bytes bytes(static_cast<std::size_t>(whole.elements()) * size_of(tensor.dtype));
  checkpoint.read(name, whole, tensor.dtype, bytes.data());
  return bytes;
}

std::optional<std::string> difference_of_values(const std::string& name, DType dtype, const Bytes& first,
                                                const Bytes& second) {
  if (first == second) return std::nullopt;
  const std::size_t size = size_of(dtype);
  std::size_t count = 0;
  std::optional<std::size_t> place;
  for (std::size_t i = 0; i < first.size() / size; ++i) {
    if (std::memcmp(first.data() + i * size, second.data() + i * size, size) == 0) continue;
    ++count;
    if (!place) place = i;
  }
  const auto index = static_cast<std::int64_t>(*place);
  return "'" + name + "' differs in " + std::to_string(count) + " of " + std::to_string(first.size() / size) +
         " elements; element " + std::to_string(index) + " is " +
         exact_number(load_element(dtype, first.data(), index)) + " and " +
         exact_number(load_element(dtype, second.data(), index));
}

}  // namespace

std::optional<std::string> find_difference(const CheckpointReader& first, const CheckpointReader& second) {
  const auto& tensors = first.manifest().tensors;
  const auto& others = second.manifest().tensors;
  for (const auto& [name, tensor] : tensors) {
    const auto other = others.find(name);
    if (other == others.end()) return "'" + name + "' is in the first only";
    if (other->second.dtype != tensor.dtype || other->second.shape != tensor.shape) {
      return "'" + name + "' has another type or shape";
    }
    auto difference = difference_of_values(name, tensor.dtype, read_whole(first, name, tensor),
                                           read_whole(second, name, other->second));
    if (difference) return difference;
  }
  for (const auto& [name, tensor] : others) {
    if (!tensors.contains(name)) return "'" + name + "' is in the second only";
  }
  return std::nullopt;
}

}  // namespace strata::host

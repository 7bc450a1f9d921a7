#include "runtime/tensor_part.hpp"

#include <utility>

namespace strata::host {

TensorPart TensorPart::block(std::vector<IndexMap> dims) {
  TensorPart part{std::move(dims), 0, 0};
  part.end = part.block_elements();
  return part;
}

TensorPart TensorPart::whole(const Shape& shape) {
  std::vector<IndexMap> dims;
  for (const std::int64_t size : shape) dims.push_back(IndexMap::whole(size));
  return block(std::move(dims));
}

std::int64_t TensorPart::block_elements() const {
  std::int64_t elements = 1;
  for (const IndexMap& dim : dims) elements *= dim.local_size();
  return elements;
}

Shape TensorPart::shape() const {
  if (!is_block()) return {elements()};
  Shape shape;
  shape.reserve(dims.size());
  for (const IndexMap& dim : dims) shape.push_back(dim.local_size());
  return shape;
}

Shape TensorPart::tensor_shape() const {
  Shape shape;
  shape.reserve(dims.size());
  for (const IndexMap& dim : dims) shape.push_back(dim.global_size);
  return shape;
}

}  // namespace strata::host

#include "strata/tensor.hpp"

#include <algorithm>

#include "strata/error.hpp"

namespace strata {

int find_dim(const Dims& dims, const Dim& dim) {
  const auto found = std::find(dims.begin(), dims.end(), dim);
  return found == dims.end() ? -1 : static_cast<int>(found - dims.begin());
}

Shape shape_of(const Dims& dims, const DimSizes& sizes) {
  Shape shape;
  shape.reserve(dims.size());
  for (const Dim& dim : dims) {
    const auto found = sizes.find(dim);
    if (found == sizes.end()) throw VerificationError("dimension '" + dim + "' has no size");
    shape.push_back(found->second);
  }
  return shape;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::string join(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : separator) + words[i];
  return text;
}

std::string to_string(const TensorType& type) {
  return "[" + join(type.dims) + "]" + std::string(to_string(type.dtype));
}

}  // namespace strata

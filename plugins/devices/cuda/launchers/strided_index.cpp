#include "launchers/strided_index.hpp"

#include <vector>

namespace strata::cuda {
namespace {

/// Appends an inner dim. Merges it with the last dim if one stride covers both.
void append(StridedIndex& index, std::int64_t size, std::int64_t stride) {
  if (size == 1) return;
  if (index.count > 0 && index.strides[index.count - 1] == size * stride) {
    index.sizes[index.count - 1] *= size;
    index.strides[index.count - 1] = stride;
    return;
  }
  index.sizes[index.count] = size;
  index.strides[index.count] = stride;
  ++index.count;
}

/// The strides of a row-major tensor that has the dims for which `has` is true. The stride of other dims is 0.
template <class Has>
std::vector<std::int64_t> strides_of(const devices::BroadcastShape& shape, const Has& has) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.count));
  std::int64_t stride = 1;
  for (int i = shape.count - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = has(i) ? stride : 0;
    if (has(i)) stride *= shape.sizes[i];
  }
  return strides;
}

}  // namespace

StridedIndex part_index(const devices::BroadcastShape& shape) {
  const std::vector<std::int64_t> strides = strides_of(shape, [&](int i) { return shape.present[i]; });
  StridedIndex index;
  for (int i = 0; i < shape.count; ++i) append(index, shape.sizes[i], strides[static_cast<std::size_t>(i)]);
  return index;
}

StridedIndex index_along(const devices::BroadcastShape& shape, int count, bool present) {
  const std::vector<std::int64_t> strides = strides_of(shape, [](int /*dim*/) { return true; });
  StridedIndex index;
  for (int i = 0; i < count; ++i) {
    if (shape.present[i] == present) append(index, shape.sizes[i], strides[static_cast<std::size_t>(i)]);
  }
  return index;
}

}  // namespace strata::cuda

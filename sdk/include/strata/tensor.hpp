#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "strata/dtype.hpp"
#include "strata/export.hpp"

namespace strata {

/// The name of a dimension ("batch", "seq", "embed", …). Strategies map names onto mesh axes.
using Dim = std::string;
/// The dimensions of a tensor, outermost first. Tensors are row-major.
using Dims = std::vector<Dim>;
/// Sizes in elements, one per dimension.
using Shape = std::vector<std::int64_t>;
/// The global size of every dimension of a graph.
using DimSizes = std::map<Dim, std::int64_t, std::less<>>;

/// The type of a logical tensor: named dimensions and an element type. The graph holds the global sizes.
struct TensorType {
  Dims dims;
  DType dtype = DType::f32;

  bool operator==(const TensorType&) const = default;
};

/// Where a buffer is stored.
enum class MemoryPlace : std::uint8_t {
  device,
  host,  ///< host memory, outside of the device's arena
  file   ///< a file
};

STRATA_API std::string_view to_string(MemoryPlace place);

/// True if an element of `range` equals `value`.
template <class Range, class Value>
[[nodiscard]] bool contains(const Range& range, const Value& value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

/// Position of `dim` in `dims`, or -1.
STRATA_API int find_dim(const Dims& dims, const Dim& dim);
/// Global sizes of `dims`. \throws VerificationError if a dimension has no size.
STRATA_API Shape shape_of(const Dims& dims, const DimSizes& sizes);
/// Number of elements: the product of the sizes, 1 for a scalar.
STRATA_API std::int64_t element_count(const Shape& shape);
/// The type as text, such as "[batch seq embed]f32".
STRATA_API std::string to_string(const TensorType& type);
/// The words with `separator` between them, such as "batch seq embed".
STRATA_API std::string join(const std::vector<std::string>& words, const std::string& separator = " ");

}  // namespace strata

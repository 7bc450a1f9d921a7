#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/dtype.hpp"
#include "strata/export.hpp"

namespace strata {

/// The name of a dimension ("batch", "seq", "embed", …). Names carry the meaning that strategies map onto mesh axes.
using Dim = std::string;
/// Dimensions of a tensor, outermost first; row-major.
using Dims = std::vector<Dim>;
/// Sizes in elements, one per dimension.
using Shape = std::vector<std::int64_t>;
/// The global size of every dimension of a graph.
using DimSizes = std::map<Dim, std::int64_t, std::less<>>;

/// What a logical tensor is: named dimensions and an element type. Sizes are global and live in the graph.
struct TensorType {
  Dims dims;
  DType dtype = DType::f32;

  bool operator==(const TensorType&) const = default;
};

/// Position of `dim` in `dims`, or -1.
STRATA_API int find_dim(const Dims& dims, const Dim& dim);
/// Global sizes of `dims`. \throws VerificationError if a dimension has no size.
STRATA_API Shape shape_of(const Dims& dims, const DimSizes& sizes);
/// Product of a shape; 1 for a scalar.
STRATA_API std::int64_t element_count(const Shape& shape);
/// "[batch seq embed]f32".
STRATA_API std::string to_string(const TensorType& type);
/// "batch seq embed".
STRATA_API std::string join(const std::vector<std::string>& words, const std::string& separator = " ");

}  // namespace strata

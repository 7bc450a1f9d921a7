#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "strata/device.hpp"

namespace strata::devices {

/// Reads a tensor in another order of its dims, with repetition along dims that it lacks.
struct Permutation {
  Shape sizes;                        ///< sizes in the order of writing
  std::vector<std::int64_t> strides;  ///< strides of the tensor that is read; 0 for dims that it lacks
  [[nodiscard]] std::int64_t elements() const { return element_count(sizes); }
};

/// The permutation that reads `part`, which has some of the dims of `whole`, in the order of `whole`.
Permutation permutation_to(const OperandDescription& part, const OperandDescription& whole);

/// The memory layout of a batch of matrices in a tensor.
struct MatrixLayout {
  bool transposed = false;        ///< true: matrices are stored as [columns, rows]
  std::int64_t leading = 1;       ///< distance, in elements, of rows (transposed: columns), which are contiguous
  std::int64_t batch_stride = 0;  ///< distance of matrices, in elements
};

/// The layouts of matrices that a device multiplies without packing.
enum class MatrixLayouts : std::uint8_t {
  contiguous,  ///< matrices follow one another without gaps
  strided      ///< any `leading` and `batch_stride`
};

/// A product of two tensors over named dims as `batch` matrix products: c[rows, columns] = a[rows, depth] · b[depth,
/// columns]. Operands are packed and results unpacked if their dims do not have that form.
struct EinsumPlan {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
  /// True if a is the second operand and b the first.
  bool swapped = false;
  /// Layouts after packing and before unpacking. c is never transposed.
  MatrixLayout a;
  MatrixLayout b;
  MatrixLayout c;
  std::optional<Permutation> pack_a;
  std::optional<Permutation> pack_b;
  std::optional<Permutation> unpack;
};

/// Why x · w -> y is not such a product. Empty if it is.
std::optional<std::string> unsupported_einsum(const OperandDescription& x, const OperandDescription& w,
                                              const OperandDescription& y);
EinsumPlan plan_einsum(const OperandDescription& x, const OperandDescription& w, const OperandDescription& y,
                       MatrixLayouts layouts);

/// True if the dims of `bias` are the last dims of `y` and the columns of the product, so that the product can add it.
bool is_over_columns(const EinsumPlan& plan, const OperandDescription& bias, const OperandDescription& y);

/// Calls write(i, element) for i = 0, 1, … in the order of writing, within tiles that fit into the cache.
template <class Element, class Write>
void permute(const Permutation& permutation, const Element* source, const Write& write) {
  constexpr std::int64_t kTile = 32;
  const Shape& sizes = permutation.sizes;
  const auto& strides = permutation.strides;
  const std::size_t last = sizes.size() - 1;
  // Tiles span two dims: the one along which reading is contiguous, and the last one, along which writing is.
  const auto fastest = static_cast<std::size_t>(std::min_element(strides.begin(), strides.end()) - strides.begin());
  std::int64_t fastest_pitch = 1;
  for (std::size_t i = fastest + 1; i <= last; ++i) fastest_pitch *= sizes[i];
  const std::int64_t fastest_size = fastest == last ? 1 : sizes[fastest];
  const std::int64_t outer_count = permutation.elements() / (fastest_size * sizes[last]);

  for (std::int64_t outer = 0; outer < outer_count; ++outer) {
    std::int64_t rest = outer;
    std::int64_t read_first = 0;
    std::int64_t write_first = 0;
    std::int64_t pitch = sizes[last];
    for (std::size_t i = last; i-- > 0;) {
      if (i != fastest) {
        read_first += rest % sizes[i] * strides[i];
        write_first += rest % sizes[i] * pitch;
        rest /= sizes[i];
      }
      pitch *= sizes[i];
    }
    for (std::int64_t row_begin = 0; row_begin < fastest_size; row_begin += kTile) {
      const std::int64_t row_end = std::min(row_begin + kTile, fastest_size);
      for (std::int64_t begin = 0; begin < sizes[last]; begin += kTile) {
        const std::int64_t end = std::min(begin + kTile, sizes[last]);
        for (std::int64_t row = row_begin; row < row_end; ++row) {
          const Element* from = source + read_first + row * strides[fastest];
          const std::int64_t to = write_first + row * fastest_pitch;
          for (std::int64_t i = begin; i < end; ++i) write(to + i, from[i * strides[last]]);
        }
      }
    }
  }
}

}  // namespace strata::devices

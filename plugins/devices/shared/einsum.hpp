#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "strata/device.hpp"

namespace strata::devices {

/// Reads a tensor in another order of its dims, or again and again along dims that it lacks.
struct Permutation {
  Shape sizes;                        ///< in the order of writing
  std::vector<std::int64_t> strides;  ///< of the tensor that is read; 0 where it lacks the dim
  [[nodiscard]] std::int64_t elements() const { return element_count(sizes); }
};

/// How `part`, which has some of the dims of `whole`, is read in the order of `whole`.
Permutation permutation_to(const OperandDescription& part, const OperandDescription& whole);

/// How the matrices of a batch lie in a tensor.
struct MatrixLayout {
  bool transposed = false;   ///< [columns, rows]
  std::int64_t leading = 1;  ///< elements from one row (transposed: column) to the next; along it there are no gaps
  std::int64_t batch_stride = 0;  ///< elements from one matrix to the next
};

/// Which layouts of matrices a device multiplies as they lie.
enum class MatrixLayouts : std::uint8_t {
  contiguous,  ///< one matrix behind the other, without gaps
  strided      ///< with any leading size and batch stride
};

/// A product of two tensors over named dims as matrix products: `batch` times c[rows, columns] = a[rows, depth] ·
/// b[depth, columns]. Operands and result whose dims don't group that way are packed and unpacked.
struct EinsumPlan {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
  /// a is the second operand and b the first.
  bool swapped = false;
  /// After packing and before unpacking. c is never transposed.
  MatrixLayout a;
  MatrixLayout b;
  MatrixLayout c;
  std::optional<Permutation> pack_a;
  std::optional<Permutation> pack_b;
  std::optional<Permutation> unpack;
};

/// Why x · w -> y is no such product.
std::optional<std::string> unsupported_einsum(const OperandDescription& x, const OperandDescription& w,
                                              const OperandDescription& y);
EinsumPlan plan_einsum(const OperandDescription& x, const OperandDescription& w, const OperandDescription& y,
                       MatrixLayouts layouts);

/// Whether the columns of the planned product are the last dims of `y` that a bias has, so that it can be added there.
bool is_over_columns(const EinsumPlan& plan, const OperandDescription& bias, const OperandDescription& y);

/// Calls write(i, element) for i = 0, 1, … in the order of writing within tiles that fit the cache.
template <class Element, class Write>
void permute(const Permutation& permutation, const Element* source, const Write& write) {
  constexpr std::int64_t kTile = 32;
  const Shape& sizes = permutation.sizes;
  const auto& strides = permutation.strides;
  const std::size_t last = sizes.size() - 1;
  // The dim along which reading is contiguous: tiles span it and the last one, along which writing is.
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

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "strata/huggingface.hpp"

namespace strata::host {

/// A parameter as a matrix whose element (row, column) lies at begin + row · row_pitch + column · column_pitch of a
/// Hugging Face tensor. The parameter's elements in row-major order are those of the matrix.
struct TensorView {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t begin = 0;
  std::int64_t row_pitch = 0;
  std::int64_t column_pitch = 1;

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }

  /// Copies the parameter's elements [first, first + count) from the tensor to `parameter`, which begins with them.
  void gather(const std::byte* tensor, std::int64_t first, std::int64_t count, std::size_t element_bytes,
              std::byte* parameter) const;
};

/// The view that `where` describes. \throws OptionError with the tensor's name if the description contradicts itself.
[[nodiscard]] TensorView view_of(const HuggingFaceTensor& where);

}  // namespace strata::host

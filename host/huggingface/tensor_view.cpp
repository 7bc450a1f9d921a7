#include "huggingface/tensor_view.hpp"

#include <algorithm>
#include <cstring>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Rows of a transposed matrix that are copied together, since neighbouring elements of the tensor are of different
/// rows.
constexpr std::int64_t kTileRows = 32;

/// `size`: bytes of an element. Tensors in a file may lie at any address.
template <std::int64_t size>
void gather_elements(const TensorView& view, const std::byte* tensor, std::int64_t first, std::int64_t count,
                     std::byte* parameter) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = (first + done) / view.columns;
    const std::int64_t column = (first + done) % view.columns;
    const std::int64_t whole_rows = column == 0 ? std::min((count - done) / view.columns, kTileRows) : 0;
    const std::int64_t rows = std::max<std::int64_t>(whole_rows, 1);
    const std::int64_t columns = whole_rows > 0 ? view.columns : std::min(count - done, view.columns - column);
    const std::byte* from = tensor + (view.begin + row * view.row_pitch + column * view.column_pitch) * size;
    std::byte* to = parameter + done * size;
    if (view.column_pitch == 1) {
      for (std::int64_t r = 0; r < rows; ++r) {
        std::memcpy(to + r * columns * size, from + r * view.row_pitch * size,
                    static_cast<std::size_t>(columns * size));
      }
    } else {
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < rows; ++r) {
          std::memcpy(to + (r * columns + c) * size, from + (r * view.row_pitch + c * view.column_pitch) * size, size);
        }
      }
    }
    done += rows * columns;
  }
}

std::int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  std::int64_t result = 1;
  for (; begin != end; ++begin) result *= *begin;
  return result;
}

}  // namespace

void TensorView::gather(const std::byte* tensor, std::int64_t first, std::int64_t count, std::size_t element_bytes,
                        std::byte* parameter) const {
  if (element_bytes == 2) return gather_elements<2>(*this, tensor, first, count, parameter);
  if (element_bytes == 4) return gather_elements<4>(*this, tensor, first, count, parameter);
  gather_elements<8>(*this, tensor, first, count, parameter);
}

TensorView view_of(const HuggingFaceTensor& where) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) throw OptionError(where.name, "its description is impossible: " + what);
  };
  const Shape& shape = where.shape;
  require(!shape.empty() && std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size > 0; }),
          "the shape is empty or has a size below 1");
  require(where.slice_dim >= 0 && where.slice_dim < std::ssize(shape), "the slice is of no dim");
  const auto dim = shape.begin() + where.slice_dim;
  const std::int64_t size = where.slice_size == 0 ? *dim : where.slice_size;
  require(where.slice_begin >= 0 && size > 0 && where.slice_begin <= *dim - size, "the slice lies outside");
  const std::int64_t inner = product(dim + 1, shape.end());
  const std::int64_t begin = where.slice_begin * inner;
  if (!where.transposed) {
    return {.rows = product(shape.begin(), dim), .columns = size * inner, .begin = begin, .row_pitch = *dim * inner};
  }
  require(shape.size() == 2, "a transposed tensor is no matrix");
  const bool of_rows = where.slice_dim == 0;
  return {.rows = of_rows ? shape[1] : size,
          .columns = of_rows ? size : shape[0],
          .begin = begin,
          .row_pitch = 1,
          .column_pitch = shape[1]};
}

}  // namespace strata::host

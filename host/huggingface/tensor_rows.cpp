#include "huggingface/tensor_rows.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "huggingface/model_parameters.hpp"

namespace strata::host {
namespace {

/// Copies `count` elements that are `pitch` elements apart to consecutive places.
template <class Element>
void copy_column(const std::byte* from, std::int64_t pitch, std::int64_t count, std::byte* to) {
  constexpr std::int64_t kSize = sizeof(Element);
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * kSize, from + i * pitch * kSize, sizeof(Element));
  }
}

}  // namespace

TensorRows::TensorRows(ExportedValues& values, const std::vector<MappedParameter>& parts,
                       const std::map<std::string, Shape>& shapes, DType dtype)
    : values_(values),
      parts_(parts),
      shapes_(shapes),
      dtype_(dtype),
      rows_(parts.front().where.shape.front()),
      element_bytes_(static_cast<std::int64_t>(size_of(dtype))) {
  const Shape& shape = parts.front().where.shape;
  row_elements_ = element_count(shape) / rows_;
  for (const MappedParameter& each : parts) {
    if (!each.where.transposed) continue;
    const std::int64_t pitch = columns_of(each).pitch;
    const bool is_aligned = each.where.slice_dim != 0 || (pitch > 0 && each.where.slice_begin % pitch == 0);
    step_ = is_aligned ? std::lcm(step_, pitch) : 0;
  }
}

TensorRows::Columns TensorRows::columns_of(const MappedParameter& part) const {
  const Shape& shape = shape_of(part);
  std::int64_t pitch = 1;
  for (std::size_t dim = shape.size(); dim-- > 0; pitch *= shape[dim]) {
    if (pitch * shape[dim] == part.view.columns) return {dim, pitch};
  }
  return {0, 0};
}

void TensorRows::read(std::int64_t begin, std::int64_t end, std::byte* destination) {
  for (const MappedParameter& each : parts_) {
    if (each.where.transposed) {
      read_transposed(each, begin, end, destination);
    } else {
      read_straight(each, begin, end, destination);
    }
  }
}

void TensorRows::load(const MappedParameter& part, const TensorPart& selected) {
  data_.resize(static_cast<std::size_t>(selected.elements() * element_bytes_));
  values_.read(part.where.parameter, selected, dtype_, data_.data());
}

void TensorRows::read_straight(const MappedParameter& part, std::int64_t begin, std::int64_t end,
                               std::byte* destination) {
  const TensorView& view = part.view;
  TensorPart selected = TensorPart::whole(shape_of(part));
  std::int64_t first_row = 0;
  if (part.where.slice_dim == 0) {
    // The slice is one run of the tensor, from view.begin on.
    selected.begin = std::clamp<std::int64_t>(begin * row_elements_ - view.begin, 0, view.columns);
    selected.end = std::clamp<std::int64_t>(end * row_elements_ - view.begin, 0, view.columns);
    if (selected.begin == selected.end) return;
    load(part, selected);
    std::byte* to = destination + (view.begin + selected.begin - begin * row_elements_) * element_bytes_;
    std::memcpy(to, data_.data(), data_.size());
    return;
  }
  const std::int64_t view_rows = view.rows / rows_;
  first_row = begin * view_rows;
  selected.begin = first_row * view.columns;
  selected.end = end * view_rows * view.columns;
  load(part, selected);
  const auto run = static_cast<std::size_t>(view.columns * element_bytes_);
  for (std::int64_t row = first_row; row < end * view_rows; ++row) {
    const std::int64_t at = view.begin + row * view.row_pitch - begin * row_elements_;
    std::memcpy(destination + at * element_bytes_, data_.data() + static_cast<std::size_t>(row - first_row) * run, run);
  }
}

void TensorRows::read_transposed(const MappedParameter& part, std::int64_t begin, std::int64_t end,
                                 std::byte* destination) {
  const TensorView& view = part.view;
  const bool of_rows = part.where.slice_dim == 0;
  const std::int64_t row_of_first = of_rows ? part.where.slice_begin : 0;
  const std::int64_t column_of_first = of_rows ? 0 : part.where.slice_begin;
  const std::int64_t first = std::clamp<std::int64_t>(begin - row_of_first, 0, view.columns);
  const std::int64_t last = std::clamp<std::int64_t>(end - row_of_first, 0, view.columns);
  if (first == last) return;
  TensorPart selected = TensorPart::whole(shape_of(part));
  const Columns columns = columns_of(part);
  if (columns.pitch > 0 && step_ > 0) {
    const std::int64_t size = selected.dims[columns.dim].global_size;
    selected.dims[columns.dim] = {size, {{0, first / columns.pitch, (last - first) / columns.pitch}}};
    selected = TensorPart::block(std::move(selected.dims));
  }
  load(part, selected);
  const std::int64_t loaded = selected.elements() / view.rows;
  const std::int64_t skipped = loaded == last - first ? 0 : first;
  for (std::int64_t column = first; column < last; ++column) {
    std::byte* to = destination + ((row_of_first + column - begin) * row_elements_ + column_of_first) * element_bytes_;
    const std::byte* from = data_.data() + (column - first + skipped) * element_bytes_;
    if (element_bytes_ == 2) {
      copy_column<std::uint16_t>(from, loaded, view.rows, to);
    } else if (element_bytes_ == 4) {
      copy_column<std::uint32_t>(from, loaded, view.rows, to);
    } else {
      copy_column<std::uint64_t>(from, loaded, view.rows, to);
    }
  }
}

}  // namespace strata::host

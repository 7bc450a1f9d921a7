#include "huggingface/exported_values.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

#include "huggingface/model_parameters.hpp"
#include "runtime/element.hpp"

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

DType ExportedValues::dtype(const std::string& parameter) const {
  if (const QuantizedWeight* quantized = terms_.find_quantized(parameter))
    return terms_.graph().type(quantized->dequantized).dtype;
  return checkpoint_.manifest().tensors.at(parameter).dtype;
}

DType ExportedValues::imported_dtype(const std::string& parameter) const {
  const auto& known = checkpoint_.run().imported_types;
  const auto found = known.find(parameter);
  return found == known.end() ? dtype(parameter) : found->second;
}

bool ExportedValues::is_copied(const std::string& parameter, DType dtype) const {
  const bool is_computed = terms_.find(parameter) != nullptr || terms_.find_quantized(parameter) != nullptr;
  return !is_computed && weights_ == RestoredWeights::trained && this->dtype(parameter) == dtype;
}

void ExportedValues::read(const std::string& parameter, const TensorPart& part, DType dtype, std::byte* destination) {
  if (terms_.find(parameter) == nullptr && terms_.find_quantized(parameter) == nullptr) {
    return checkpoint_.read_value(parameter, part, dtype, destination, weights_);
  }
  if (merged_parameter_ != parameter) merge(parameter);
  for_each_run(part, [&](std::int64_t local, std::int64_t global, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      store_element(dtype, destination, local + i, merged_[static_cast<std::size_t>(global + i)]);
    }
  });
}

void ExportedValues::read_whole(const std::string& parameter, std::span<float> values) const {
  if (const QuantizedWeight* quantized = terms_.find_quantized(parameter)) return read_quantized(*quantized, values);
  checkpoint_.read_value(parameter, TensorPart::whole(terms_.shape(parameter)), DType::f32, values.data(), weights_);
}

void ExportedValues::read_quantized(const QuantizedWeight& weight, std::span<float> values) const {
  std::vector<std::int8_t> codes(static_cast<std::size_t>(weight.shape.bytes()));
  std::vector<float> scales(static_cast<std::size_t>(weight.shape.scales()));
  const auto part = [&](const std::string& name) { return TensorPart::whole(terms_.shape(name)); };
  checkpoint_.read_value(weight.codes, part(weight.codes), DType::i8, codes.data(), weights_);
  checkpoint_.read_value(weight.scales, part(weight.scales), DType::f32, scales.data(), weights_);
  decode_weight(weight.shape, codes, scales, values);
}

void ExportedValues::merge(const std::string& parameter) {
  merged_parameter_.clear();
  merged_.resize(static_cast<std::size_t>(element_count(terms_.shape(parameter))));
  const ReadParameter read = [this](const std::string& name, std::span<float> values) { read_whole(name, values); };
  read(parameter, merged_);
  terms_.merge(parameter, merged_, read);
  merged_parameter_ = parameter;
}

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
  const std::int64_t first = begin * row_elements_;
  // The parameter's elements that lie before `offset` in the tensor.
  const auto elements_before = [&](std::int64_t offset) {
    const std::int64_t distance = std::max<std::int64_t>(0, offset - view.begin);
    const std::int64_t row = distance / view.row_pitch;
    return row >= view.rows ? view.elements() : row * view.columns + std::min(distance % view.row_pitch, view.columns);
  };
  TensorPart selected = TensorPart::whole(shape_of(part));
  selected.begin = elements_before(first);
  selected.end = elements_before(end * row_elements_);
  if (selected.begin == selected.end) return;
  load(part, selected);
  for (std::int64_t done = selected.begin; done < selected.end;) {
    const std::int64_t column = done % view.columns;
    const std::int64_t run = std::min(view.columns - column, selected.end - done);
    const std::int64_t at = view.begin + done / view.columns * view.row_pitch + column - first;
    std::memcpy(destination + at * element_bytes_, data_.data() + (done - selected.begin) * element_bytes_,
                static_cast<std::size_t>(run * element_bytes_));
    done += run;
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

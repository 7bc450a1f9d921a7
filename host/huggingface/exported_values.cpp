#include "huggingface/exported_values.hpp"

#include <algorithm>
#include <cstdint>

#include "huggingface/model_parameters.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"

namespace strata::host {
namespace {

void convert(std::span<const float> from, DType dtype, std::byte* to) {
  const auto store = [&](auto* values, auto convert_one) {
    std::transform(from.begin(), from.end(), values, convert_one);
  };
  switch (dtype) {
    case DType::f64:
      return store(reinterpret_cast<double*>(to), [](float value) { return static_cast<double>(value); });
    case DType::f32:
      return store(reinterpret_cast<float*>(to), [](float value) { return value; });
    case DType::bf16:
      return store(reinterpret_cast<std::uint16_t*>(to), [](float value) { return to_bf16(value); });
    case DType::f16:
      return store(reinterpret_cast<std::uint16_t*>(to), [](float value) { return to_f16(value); });
    default:
      throw VerificationError("values of type " + std::string(to_string(dtype)) + " cannot be exported");
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
    const auto run = std::span(merged_).subspan(static_cast<std::size_t>(global), static_cast<std::size_t>(length));
    convert(run, dtype, destination + static_cast<std::size_t>(local) * size_of(dtype));
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

}  // namespace strata::host

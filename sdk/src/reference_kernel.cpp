#include "strata/reference_kernel.hpp"

#include "strata/half.hpp"
#include "strata/random.hpp"

namespace strata::reference {

double Reader::converted(std::int64_t index) const {
  switch (dtype_) {
    case DType::f64:
      return static_cast<const double*>(data_)[index];
    case DType::f32:
      return static_cast<const float*>(data_)[index];
    case DType::bf16:
      return from_bf16(static_cast<const std::uint16_t*>(data_)[index]);
    case DType::f16:
      return from_f16(static_cast<const std::uint16_t*>(data_)[index]);
    case DType::i32:
      return static_cast<const std::int32_t*>(data_)[index];
    case DType::i64:
      return static_cast<double>(static_cast<const std::int64_t*>(data_)[index]);
    case DType::i8:
      return static_cast<const std::int8_t*>(data_)[index];
  }
  return 0.0;
}

Values::Values(const Reader& reader, std::int64_t count) {
  values_.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values_.push_back(reader[i]);
}

void Writer::overwrite(std::int64_t index, double value) const {
  switch (dtype_) {
    case DType::f64:
      static_cast<double*>(data_)[index] = value;
      return;
    case DType::f32:
      static_cast<float*>(data_)[index] = static_cast<float>(value);
      return;
    case DType::bf16:
      static_cast<std::uint16_t*>(data_)[index] = to_bf16(static_cast<float>(value));
      return;
    case DType::f16:
      static_cast<std::uint16_t*>(data_)[index] = to_f16(static_cast<float>(value));
      return;
    case DType::i32:
      static_cast<std::int32_t*>(data_)[index] = static_cast<std::int32_t>(value);
      return;
    case DType::i64:
      static_cast<std::int64_t*>(data_)[index] = static_cast<std::int64_t>(value);
      return;
    case DType::i8:
      static_cast<std::int8_t*>(data_)[index] = static_cast<std::int8_t>(value);
      return;
  }
}

GlobalIndex Launch::global_index(const Dim& dim) const {
  const IndexMap& map = index_map(op_, dim);
  return {map, is_micro_batch_dim(op_, dim) ? map.global_size * context().micro_batch : 0};
}

std::uint64_t Launch::stream_key() const { return random::stream_key(op_.seed, op_.name, context().step); }

Strides strides_along(const OperandDescription& operand, const Dims& dims) {
  Strides strides(dims.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = operand.dims.size(); i-- > 0;) {
    const int position = find_dim(dims, operand.dims[i]);
    if (position >= 0) strides[static_cast<std::size_t>(position)] = stride;
    stride *= operand.shape[i];
  }
  return strides;
}

std::int64_t offset(std::int64_t flat, const Shape& shape, const Strides& strides) {
  std::int64_t result = 0;
  for (std::size_t i = shape.size(); i-- > 0;) {
    result += flat % shape[i] * strides[i];
    flat /= shape[i];
  }
  return result;
}

KernelDefinition kernel(const Definition& definition) {
  KernelDefinition kernel;
  kernel.op = definition.op;
  kernel.rank = kReferenceRank;
  kernel.signature = {.operands = definition.operands,
                      .results = definition.results,
                      .accumulates = definition.accumulates,
                      .reals = {DType::f64, DType::f32, DType::bf16, DType::f16},
                      .indices = {DType::i32, DType::i64}};
  kernel.prepare = [prepare = definition.prepare, workspace = definition.workspace](
                       const OpInstance& given, const KernelEnvironment& /*environment*/) -> PreparedKernel {
    // The launch refers to the instance, so the instance needs a stable address.
    const auto instance = std::make_shared<const OpInstance>(given);
    return {
        [instance, work = prepare(*instance)](const KernelArguments& arguments) { work(Launch(*instance, arguments)); },
        workspace == nullptr ? 0 : workspace(*instance)};
  };
  if (definition.unsupported != nullptr) {
    kernel.unsupported = [unsupported = definition.unsupported](const OpInstance& op,
                                                                const KernelEnvironment& /*environment*/) {
      return unsupported(op);
    };
  }
  return kernel;
}

bool is_micro_batch_dim(const OpInstance& op, const Dim& dim) { return op.micro_batch_dim == dim; }

Shape global_shape(const OpInstance& op, const OperandDescription& operand) {
  Shape shape;
  for (const Dim& dim : operand.dims) shape.push_back(index_map(op, dim).global_size);
  return shape;
}

}  // namespace strata::reference

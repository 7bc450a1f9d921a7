#include "kernel.hpp"

#include "shared/operand_types.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"
#include "strata/random.hpp"

namespace strata::reference {
namespace {

class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(const KernelEntry& entry, OpInstance instance)
      : instance_(std::move(instance)), function_(entry.prepare(instance_)) {}

  void launch(const KernelArguments& arguments) override { function_(Launch(instance_, arguments)); }

 private:
  OpInstance instance_;
  LaunchFunction function_;
};

const devices::DeviceTypes kTypes = {.reals = {DType::f64, DType::f32, DType::bf16, DType::f16},
                                     .indices = {DType::i32, DType::i64}};

}  // namespace

double Reader::operator[](std::int64_t index) const {
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

std::optional<std::string> mismatch(const KernelEntry& entry, const OpInstance& instance) {
  const std::string prefix = "the reference device's '" + instance.op + "' (" + instance.name + "): ";
  const devices::KernelSignature signature{entry.operands, entry.results, entry.can_accumulate};
  if (const auto reason = devices::type_mismatch(signature, instance, kTypes)) return prefix + *reason;
  if (instance.accumulate && !entry.can_accumulate) return prefix + "cannot add to its results";
  return std::nullopt;
}

std::unique_ptr<Kernel> make_kernel(const KernelEntry& entry, const OpInstance& instance) {
  return std::make_unique<FunctionKernel>(entry, instance);
}

bool is_micro_batch_dim(const OpInstance& op, const Dim& dim) { return op.micro_batch_dim == dim; }

Shape global_shape(const OpInstance& op, const OperandDescription& operand) {
  Shape shape;
  for (const Dim& dim : operand.dims) shape.push_back(index_map(op, dim).global_size);
  return shape;
}

}  // namespace strata::reference

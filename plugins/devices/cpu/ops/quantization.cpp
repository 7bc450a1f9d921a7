#include "strata/internal/quantization.hpp"

#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"
#include "strata/internal/weight_blocks.hpp"

namespace strata::cpu {
namespace {

QuantizedBlocks blocks_of(const OpInstance& op) {
  const QuantizedRuns shape = QuantizedRuns::from(op);
  return {shape.quantization.bits, shape.quantization.block, shape.length, shape.runs, shape.sources};
}

PreparedKernel prepare_quantize_blocks(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(quantization_kernels(environment.instruction_set()).of<T>().quantize, blocks_of(op), Operand<T>{0},
                Result<std::int8_t>{0}, Result<float>{1}, environment.threads());
  });
}

PreparedKernel prepare_dequantize_blocks(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.results[0].dtype, [&]<class T>() {
    return call(quantization_kernels(environment.instruction_set()).of<T>().dequantize, blocks_of(op),
                Operand<std::int8_t>{0}, Operand<float>{1}, Result<T>{0}, environment.threads());
  });
}

PreparedKernel prepare_dequantize_weight(const OpInstance& op, const CpuEnvironment& environment) {
  const BlockedWeight shape = BlockedWeight::from(op);
  const float* numbers = shape.blocks.code == WeightCode::nf4 ? kNormalFloat4.data() : nullptr;
  const CodedWeight weight{numbers, shape.blocks.size, shape.outer, shape.length, shape.inner};
  return with_element(op.results[0].dtype, [&]<class T>() {
    return call(weight_kernels(environment.instruction_set()).of<T>().dequantize, weight, Operand<std::int8_t>{0},
                Operand<float>{1}, Result<T>{0}, environment.threads());
  });
}

}  // namespace

void register_quantization(Registration& registration) {
  registration.add(kernel({"quantize_blocks", "r", "bf", prepare_quantize_blocks, false, QuantizedRuns::mismatch}));
  registration.add(kernel({"dequantize_blocks", "bf", "r", prepare_dequantize_blocks, false, QuantizedRuns::mismatch}));
  registration.add(kernel({kDequantizeWeight, "bf", "r", prepare_dequantize_weight, false, BlockedWeight::mismatch}));
}

}  // namespace strata::cpu

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

}  // namespace

void register_quantization(Registration& registration) {
  add(registration, {"quantize_blocks", "r", "bf", false, QuantizedRuns::mismatch},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(quantization_kernels(environment.instruction_set()).of<T>().quantize, blocks_of(op), Operand<T>{0},
                    Result<std::int8_t>{0}, Result<float>{1}, environment.threads());
      });
  add(registration, {"dequantize_blocks", "bf", "r", false, QuantizedRuns::mismatch},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(quantization_kernels(environment.instruction_set()).of<T>().dequantize, blocks_of(op),
                    Operand<std::int8_t>{0}, Operand<float>{1}, Result<T>{0}, environment.threads());
      });
  add(registration, {kDequantizeWeight, "bf", "r", false, BlockedWeight::mismatch},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        const BlockedWeight shape = BlockedWeight::from(op);
        const float* numbers = shape.blocks.code == WeightCode::nf4 ? kNormalFloat4.data() : nullptr;
        const CodedWeight weight{numbers, shape.blocks.size, shape.outer, shape.length, shape.inner};
        return call(weight_kernels(environment.instruction_set()).of<T>().dequantize, weight, Operand<std::int8_t>{0},
                    Operand<float>{1}, Result<T>{0}, environment.threads());
      });
}

}  // namespace strata::cpu

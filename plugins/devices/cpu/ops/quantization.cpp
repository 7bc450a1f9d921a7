
#include "strata/internal/quantization.hpp"

#include "cpu_kernel.hpp"
#include "operands.hpp"

namespace strata::cpu {
namespace {

QuantizedBlocks blocks_of(const OpInstance& op) {
  const QuantizedRuns shape = QuantizedRuns::from(op);
  return {shape.quantization.bits, shape.quantization.block, shape.length, shape.runs, shape.sources};
}

PreparedKernel prepare_quantize_blocks(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto quantize = quantization_kernels(environment.instruction_set()).of<T>().quantize;
    return {[=, blocks = blocks_of(op), threads = environment.threads()](const KernelArguments& arguments) {
      quantize(blocks, in<T>(arguments, 0), out<std::int8_t>(arguments, 0), f32_result(arguments, 1), threads);
    }};
  });
}

PreparedKernel prepare_dequantize_blocks(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.results[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto dequantize = quantization_kernels(environment.instruction_set()).of<T>().dequantize;
    return {[=, blocks = blocks_of(op), threads = environment.threads()](const KernelArguments& arguments) {
      dequantize(blocks, in<std::int8_t>(arguments, 0), f32(arguments, 1), out<T>(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_dequantize_weight(const OpInstance& op, const CpuEnvironment& environment) {
  const BlockedWeight shape = BlockedWeight::from(op);
  const float* numbers = shape.blocks.code == WeightCode::nf4 ? kNormalFloat4.data() : nullptr;
  const CodedWeight weight{numbers, shape.blocks.size, shape.outer, shape.length, shape.inner};
  return with_element(op.results[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto dequantize = weight_kernels(environment.instruction_set()).of<T>().dequantize;
    return {[=, threads = environment.threads()](const KernelArguments& arguments) {
      dequantize(weight, in<std::int8_t>(arguments, 0), f32(arguments, 1), out<T>(arguments, 0), threads);
    }};
  });
}

}  // namespace

void register_quantization(Registration& registration) {
  registration.add(kernel({"quantize_blocks", "r", "bf", prepare_quantize_blocks, false, QuantizedRuns::mismatch}));
  registration.add(kernel({"dequantize_blocks", "bf", "r", prepare_dequantize_blocks, false, QuantizedRuns::mismatch}));
  registration.add(kernel({kDequantizeWeight, "bf", "r", prepare_dequantize_weight, false, BlockedWeight::mismatch}));
}

}  // namespace strata::cpu

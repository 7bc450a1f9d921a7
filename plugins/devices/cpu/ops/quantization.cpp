#include "strata/quantization.hpp"

#include "ops/operations.hpp"

namespace strata::cpu {
namespace {

QuantizedBlocks blocks_of(const OpInstance& op) {
  const QuantizedRuns shape = QuantizedRuns::from(op);
  return {shape.quantization.bits, shape.quantization.block, shape.length, shape.runs, shape.sources};
}

}  // namespace

std::optional<std::string> unsupported_quantization(const OpInstance& op) {
  try {
    static_cast<void>(QuantizedRuns::from(op));
    return std::nullopt;
  } catch (const VerificationError& error) {
    return error.what();
  }
}

ComputeKernel prepare_quantize_blocks(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto quantize = environment.library->quantization.template of<T>().quantize;
    return {[=, blocks = blocks_of(op), threads = environment.threads](const KernelArguments& arguments) {
      quantize(blocks, in<T>(arguments, 0), out<std::int8_t>(arguments, 0), f32_result(arguments, 1), threads);
    }};
  });
}

ComputeKernel prepare_dequantize_blocks(const OpInstance& op, const Environment& environment) {
  return with_element(op.results[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto dequantize = environment.library->quantization.template of<T>().dequantize;
    return {[=, blocks = blocks_of(op), threads = environment.threads](const KernelArguments& arguments) {
      dequantize(blocks, in<std::int8_t>(arguments, 0), f32(arguments, 1), out<T>(arguments, 0), threads);
    }};
  });
}

}  // namespace strata::cpu

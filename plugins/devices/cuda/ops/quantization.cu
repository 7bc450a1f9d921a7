#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/dequantization.cuh"
#include "language/launch.hpp"
#include "strata/internal/quantization.hpp"

namespace strata::cuda {
namespace {

QuantizedShape shape_of(const OpInstance& op) {
  const QuantizedRuns runs = QuantizedRuns::from(op);
  return {runs.quantization.bits,
          runs.quantization.block,
          runs.length,
          runs.runs,
          runs.sources,
          runs.quantization.scales(runs.length)};
}

template <class T>
PreparedKernel prepare_quantize(const OpInstance& op) {
  const QuantizedShape shape = shape_of(op);
  const bool in_runs = shape.block % kQuantizeRun == 0 && (shape.runs == 1 || shape.length % kQuantizeRun == 0);
  return {[=](const KernelArguments& arguments) {
    const T* x = in<T>(arguments, 0);
    auto* integers = out<std::int8_t>(arguments, 0);
    const bool packed = in_runs && are_aligned(x, integers);
    launch(quantize_blocks<T>, {{blocks_for(shape.runs * shape.blocks_of_run, kQuantizeWarps)}, {kQuantizeThreads}},
           arguments.stream, shape, packed, x, integers, out<Accumulate<T>>(arguments, 1));
  }};
}

template <class T, class A>
PreparedKernel prepare_dequantize(const OpInstance& op) {
  const QuantizedShape shape = shape_of(op);
  const bool in_runs = shape.block % kDequantizeRun == 0 && shape.length % kDequantizeRun == 0;
  return {[=, accumulate = op.accumulate](const KernelArguments& arguments) {
    const auto* integers = in<std::int8_t>(arguments, 0);
    T* y = out<T>(arguments, 0);
    const bool packed = in_runs && are_aligned(integers, y);
    const std::int64_t of_block = kDequantizeThreads * (packed ? kDequantizeRun : 1);
    launch(dequantize_blocks<T, A>, {{blocks_for(shape.runs * shape.length, of_block)}, {kDequantizeThreads}},
           arguments.stream, shape, packed, accumulate, integers, in<A>(arguments, 1), y);
  }};
}

PreparedKernel prepare_quantize_blocks(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() { return prepare_quantize<T>(op); });
}

PreparedKernel prepare_dequantize_blocks(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.results[0].dtype, [&]<class T>() {
    if (op.operands[1].dtype == DType::f64) return prepare_dequantize<T, double>(op);
    return prepare_dequantize<T, float>(op);
  });
}

}  // namespace

void register_quantization(Registration& registration) {
  registration.add(kernel({"quantize_blocks", "r", "bf", prepare_quantize_blocks, false, QuantizedRuns::mismatch}));
  registration.add(kernel({"dequantize_blocks", "bf", "r", prepare_dequantize_blocks, true, QuantizedRuns::mismatch}));
}

}  // namespace strata::cuda

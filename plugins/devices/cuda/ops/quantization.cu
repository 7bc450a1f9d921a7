#include "kernels/dequantization.cuh"
#include "language/launch.hpp"
#include "ops/operations.hpp"
#include "strata/quantization.hpp"

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
PreparedOp prepare_quantize(const OpInstance& op) {
  const QuantizedShape shape = shape_of(op);
  const bool in_runs = shape.block % kQuantizeRun == 0 && (shape.runs == 1 || shape.length % kQuantizeRun == 0);
  return {[=](const KernelArguments& arguments, Stream stream) {
    const T* x = in<T>(arguments, 0);
    auto* integers = out<std::int8_t>(arguments, 0);
    const bool packed = in_runs && are_aligned(x, integers);
    launch(quantize_blocks<T>, {{blocks_for(shape.runs * shape.blocks_of_run, kQuantizeWarps)}, {kQuantizeThreads}},
           stream, shape, packed, x, integers, out<Accumulate<T>>(arguments, 1));
  }};
}

template <class T, class A>
PreparedOp prepare_dequantize(const OpInstance& op) {
  const QuantizedShape shape = shape_of(op);
  const bool in_runs = shape.block % kDequantizeRun == 0 && shape.length % kDequantizeRun == 0;
  return {[=, accumulate = op.accumulate](const KernelArguments& arguments, Stream stream) {
    const auto* integers = in<std::int8_t>(arguments, 0);
    T* y = out<T>(arguments, 0);
    const bool packed = in_runs && are_aligned(integers, y);
    const std::int64_t of_block = kDequantizeThreads * (packed ? kDequantizeRun : 1);
    launch(dequantize_blocks<T, A>, {{blocks_for(shape.runs * shape.length, of_block)}, {kDequantizeThreads}}, stream,
           shape, packed, accumulate, integers, in<A>(arguments, 1), y);
  }};
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

PreparedOp prepare_quantize_blocks(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() { return prepare_quantize<T>(op); });
}

PreparedOp prepare_dequantize_blocks(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.results[0].dtype, [&]<class T>() {
    if (op.operands[1].dtype == DType::f64) return prepare_dequantize<T, double>(op);
    return prepare_dequantize<T, float>(op);
  });
}

}  // namespace strata::cuda

#include <algorithm>
#include <iterator>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/weight_blocks.cuh"
#include "language/launch.hpp"
#include "strata/internal/weight_blocks.hpp"

namespace strata::cuda {
namespace {

CodedWeight shape_of(const BlockedWeight& weight) {
  return {weight.blocks.code == WeightCode::nf4,
          weight.blocks.size,
          weight.outer,
          weight.length,
          weight.inner,
          weight.blocks.bytes(weight.length),
          weight.blocks.scales(weight.length)};
}

template <class T, class A>
PreparedKernel prepare(const OpInstance& op) {
  const BlockedWeight weight = BlockedWeight::from(op);
  NumberTable table{};
  std::copy(kNormalFloat4.begin(), kNormalFloat4.end(), std::begin(table.numbers));
  return {[=, shape = shape_of(weight), accumulate = op.accumulate](const KernelArguments& arguments) {
    launch(dequantize_weight<T, A>, {{blocks_for(weight.elements(), kWeightThreads)}, {kWeightThreads}},
           arguments.stream, shape, table, accumulate, in<std::int8_t>(arguments, 0), in<A>(arguments, 1),
           out<T>(arguments, 0));
  }};
}

PreparedKernel prepare_dequantize_weight(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.results[0].dtype, [&]<class T>() {
    if (op.operands[1].dtype == DType::f64) return prepare<T, double>(op);
    return prepare<T, float>(op);
  });
}

}  // namespace

void register_weight_blocks(Registration& registration) {
  registration.add(kernel({kDequantizeWeight, "bf", "r", prepare_dequantize_weight, true, BlockedWeight::mismatch}));
}

}  // namespace strata::cuda

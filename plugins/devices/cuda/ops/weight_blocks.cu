#include <algorithm>
#include <iterator>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/element_run.cuh"
#include "language/launch.hpp"
#include "strata/internal/weight_blocks.hpp"

namespace strata::cuda {

inline constexpr int kWeightThreads = 256;

/// A weight [outer length inner] in blocks along `length`. See strata/internal/weight_blocks.hpp for the data format.
struct CodedWeight {
  bool is_nf4 = false;
  std::int64_t block = 64;
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
  /// Rows of codes and of scales for each of `outer`.
  std::int64_t code_rows = 1;
  std::int64_t scale_rows = 1;
};

/// The numbers of 4-bit codes.
struct NumberTable {
  float numbers[16];
};

/// y (+)= the weight. Each thread decodes one number. Threads that follow one another decode numbers that follow one
/// another in memory, so they read codes that do too.
template <class T, class A>
__global__ void __launch_bounds__(kWeightThreads)
    dequantize_weight(CodedWeight weight, NumberTable table, bool accumulate, const std::int8_t* codes, const A* scales,
                      T* y) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kWeightThreads + threadIdx.x;
  if (at >= weight.outer * weight.length * weight.inner) return;
  const std::int64_t row = at / weight.inner;
  const std::int64_t inner = at - row * weight.inner;
  const std::int64_t outer = row / weight.length;
  const std::int64_t index = row - outer * weight.length;
  const std::int64_t block = index / weight.block;
  std::int64_t byte = index;
  bool is_upper = false;
  if (weight.is_nf4) {
    const std::int64_t begin = block * weight.block;
    const std::int64_t rest = weight.length - begin;
    const std::int64_t half = ((rest < weight.block ? rest : weight.block) + 1) / 2;
    is_upper = index - begin >= half;
    byte = begin / 2 + index - begin - (is_upper ? half : 0);
  }
  const std::int8_t code = codes[(outer * weight.code_rows + byte) * weight.inner + inner];
  const A scale = scales[(outer * weight.scale_rows + block) * weight.inner + inner];
  A number;
  if (weight.is_nf4) {
    const unsigned bits = static_cast<std::uint8_t>(code);
    number = static_cast<A>(table.numbers[is_upper ? bits >> 4 : bits & 0xF]);
  } else {
    number = static_cast<A>(code) / static_cast<A>(127);
  }
  A value = number * scale;
  if (accumulate) value += to_computed<A>(y[at]);
  y[at] = to_element<T>(value);
}

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

#include "strata/internal/weight_blocks.hpp"

#include "cpu_kernel.hpp"
#include "kernels/weight_blocks.hpp"
#include "operands.hpp"

namespace strata::cpu {
namespace {

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

void register_weight_blocks(Registration& registration) {
  registration.add(kernel({kDequantizeWeight, "bf", "r", prepare_dequantize_weight, false, BlockedWeight::mismatch}));
}

}  // namespace strata::cpu

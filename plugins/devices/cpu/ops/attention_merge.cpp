#include "kernels/attention_merge.hpp"

#include "cpu_kernel.hpp"
#include "operands.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_attention_merge(const OpInstance& op, const CpuEnvironment& environment) {
  AttentionOutputShape shape;
  shape.batch = op.operands[0].shape[0];
  shape.sequence = op.operands[0].shape[1];
  shape.head_dim = columns(op.operands[0]);
  shape.heads = elements(op.operands[1]) / (shape.batch * shape.sequence);
  return {[=, merge = attention_merge_kernels(environment.instruction_set()).merge,
           threads = environment.threads()](const KernelArguments& arguments) {
    merge(shape, f32(arguments, 0), f32(arguments, 1), f32(arguments, 2), f32(arguments, 3), f32_result(arguments, 0),
          f32_result(arguments, 1), threads);
  }};
}

}  // namespace

void register_attention_merge(Registration& registration) {
  registration.add(kernel({"attention_merge", "ffff", "ff", prepare_attention_merge}));
}

}  // namespace strata::cpu

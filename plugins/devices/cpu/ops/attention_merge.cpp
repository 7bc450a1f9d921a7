#include "ops/operations.hpp"

namespace strata::cpu {

ComputeKernel prepare_attention_merge(const OpInstance& op, const Environment& environment) {
  AttentionOutputShape shape;
  shape.batch = op.operands[0].shape[0];
  shape.sequence = op.operands[0].shape[1];
  shape.head_dim = columns(op.operands[0]);
  shape.heads = elements(op.operands[1]) / (shape.batch * shape.sequence);
  return {[=, merge = environment.library->attention_merge.merge,
           threads = environment.threads](const KernelArguments& arguments) {
    merge(shape, f32(arguments, 0), f32(arguments, 1), f32(arguments, 2), f32(arguments, 3), f32_result(arguments, 0),
          f32_result(arguments, 1), threads);
  }};
}

}  // namespace strata::cpu

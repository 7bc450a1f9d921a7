#include <cmath>

#include "index_map.hpp"
#include "ops/operations.hpp"
#include "strata/random.hpp"

namespace strata::cpu {
namespace {

/// Builds the kernels' description of a launch: operands q [batch seq heads… head_dim], k and v alike.
class AttentionPlan {
 public:
  explicit AttentionPlan(const OpInstance& op)
      : seed_(op.seed),
        name_(op.name),
        samples_(op, op.operands[0].dims[0]),
        query_positions_(op, op.operands[0].dims[1]),
        key_positions_(op, op.operands[1].dims[1]),
        heads_(op, Dims(op.operands[0].dims.begin() + 2, op.operands[0].dims.end() - 1)) {
    shape_.batch = op.operands[0].shape[0];
    shape_.sequence = op.operands[0].shape[1];
    shape_.kv_sequence = op.operands[1].shape[1];
    shape_.head_dim = columns(op.operands[0]);
    shape_.heads = elements(op.operands[0]) / (shape_.batch * shape_.sequence * shape_.head_dim);
    shape_.kv_heads = elements(op.operands[1]) / (shape_.batch * shape_.kv_sequence * shape_.head_dim);
    shape_.query_strides = contiguous_strides(shape_.sequence, shape_.heads, shape_.head_dim);
    shape_.output_strides = shape_.query_strides;
    shape_.key_strides = contiguous_strides(shape_.kv_sequence, shape_.kv_heads, shape_.head_dim);
    shape_.value_strides = shape_.key_strides;
    shape_.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape_.head_dim)));
    shape_.causal = op.attributes.flag("causal");
    shape_.dropout.probability = op.attributes.number("dropout");
    shape_.global_heads = heads_.global_size();
    shape_.global_sequence = query_positions_.global_size();
    shape_.global_kv_sequence = key_positions_.global_size();
  }

  const AttentionShape& at(const StepContext& context) {
    shape_.samples = samples_.map(context.micro_batch);
    shape_.head_indices = heads_.map(0);
    shape_.query_positions = query_positions_.map(0);
    shape_.key_positions = key_positions_.map(0);
    shape_.dropout.stream_key = random::stream_key(seed_, name_, context.step);
    return shape_;
  }

 private:
  std::uint64_t seed_;
  std::string name_;
  AttentionShape shape_;
  DimIndices samples_;
  DimIndices query_positions_;
  DimIndices key_positions_;
  DimIndices heads_;
};

}  // namespace

ComputeKernel prepare_attention(const OpInstance& op, const Environment& environment) {
  const AttentionKernels kernels = environment.library->attention;
  const int threads = environment.threads;
  AttentionPlan plan(op);
  const std::int64_t workspace = kernels.forward_workspace_bytes(plan.at({}), threads);
  return {[=](const KernelArguments& arguments) mutable {
            kernels.forward(plan.at(arguments.context), f32(arguments, 0), f32(arguments, 1), f32(arguments, 2),
                            f32_result(arguments, 0), f32_result(arguments, 1), arguments.workspace, threads);
          },
          workspace};
}

ComputeKernel prepare_attention_gradient(const OpInstance& op, const Environment& environment) {
  const AttentionKernels kernels = environment.library->attention;
  const int threads = environment.threads;
  AttentionPlan plan(op);
  const std::int64_t workspace = kernels.gradient_workspace_bytes(plan.at({}), threads);
  return {[=](const KernelArguments& arguments) mutable {
            kernels.gradient(plan.at(arguments.context), f32(arguments, 0), f32(arguments, 1), f32(arguments, 2),
                             f32(arguments, 3), f32(arguments, 4), f32(arguments, 5), f32_result(arguments, 0),
                             f32_result(arguments, 1), f32_result(arguments, 2), arguments.workspace, threads);
          },
          workspace};
}

}  // namespace strata::cpu

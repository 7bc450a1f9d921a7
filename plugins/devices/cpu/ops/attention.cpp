#include "kernels/attention.hpp"

#include "cpu_kernel.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/random.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_attention_merge(const OpInstance& op, const CpuEnvironment& environment) {
  AttentionOutputShape shape;
  shape.batch = op.operands[0].shape[0];
  shape.sequence = op.operands[0].shape[1];
  shape.head_dim = columns(op.operands[0]);
  shape.heads = elements(op.operands[1]) / (shape.batch * shape.sequence);
  return call(attention_merge_kernels(environment.instruction_set()).merge, shape, Operand<float>{0}, Operand<float>{1},
              Operand<float>{2}, Operand<float>{3}, Result<float>{0}, Result<float>{1}, environment.threads());
}

/// Translates an instance to the kernels' AttentionShape. Operands are q [batch seq heads… head_dim], k and v alike.
class AttentionPlan {
 public:
  /// `operands`: operands of the op without bias and documents.
  AttentionPlan(const OpInstance& op, std::size_t operands)
      : seed_(op.seed),
        name_(op.name),
        samples_(op, op.operands[0].dims[0]),
        query_positions_(op, op.operands[0].dims[1]),
        key_positions_(op, op.operands[1].dims[1]),
        heads_(op, Dims(op.operands[0].dims.begin() + 2, op.operands[0].dims.end() - 1)),
        operands_(operands) {
    shape_.batch = op.operands[0].shape[0];
    shape_.sequence = op.operands[0].shape[1];
    shape_.kv_sequence = op.operands[1].shape[1];
    shape_.head_dim = columns(op.operands[0]);
    shape_.heads = elements(op.operands[0]) / (shape_.batch * shape_.sequence * shape_.head_dim);
    shape_.kv_heads = elements(op.operands[1]) / (shape_.batch * shape_.kv_sequence * shape_.head_dim);
    shape_.scale = static_cast<float>(attention_scores(op).scale);
    shape_.cap = static_cast<float>(attention_scores(op).cap);
    shape_.causal = op.attributes.flag("causal");
    if (op.attributes.has("window")) shape_.window = op.attributes.integer("window");
    shape_.has_documents = op.operands.back().dtype == DType::i32;
    shape_.has_bias = op.operands.size() > operands + (shape_.has_documents ? 2 : 0);
    shape_.has_bias_gradient = shape_.has_bias && op.results.size() > kBiasGradient;
    shape_.element = element_of(op.operands[0].dtype);
    shape_.dropout.probability = op.attributes.number("dropout");
    shape_.f32_results = op.results[0].dtype == DType::f32;
    shape_.global_heads = heads_.global_size();
    shape_.global_sequence = query_positions_.global_size();
    shape_.global_kv_sequence = key_positions_.global_size();
  }

  const AttentionShape& at(const KernelArguments& arguments) {
    if (shape_.has_bias) shape_.bias = arguments.operands[operands_];
    if (shape_.has_bias_gradient) shape_.d_bias = arguments.results[kBiasGradient];
    if (shape_.has_documents) {
      const std::size_t first = operands_ + (shape_.has_bias ? 1 : 0);
      shape_.query_documents = in<std::int32_t>(arguments, first);
      shape_.key_documents = in<std::int32_t>(arguments, first + 1);
    }
    return at(arguments.context);
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
  /// The result of attention_gradient that is the gradient of the bias.
  static constexpr std::size_t kBiasGradient = 3;

  std::uint64_t seed_;
  std::string name_;
  AttentionShape shape_;
  DimIndices samples_;
  DimIndices query_positions_;
  DimIndices key_positions_;
  DimIndices heads_;
  std::size_t operands_;
};

constexpr auto kAttention = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  const AttentionKernels<T> kernels = attention_kernels(environment.instruction_set()).of<T>();
  const int threads = environment.threads();
  AttentionPlan plan(op, 3);
  const std::int64_t workspace = kernels.forward_workspace_bytes(plan.at(StepContext{}), threads);
  return {[=](const KernelArguments& arguments) mutable {
            kernels.forward(plan.at(arguments), in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2),
                            arguments.results[0], out<float>(arguments, 1), arguments.workspace, threads);
          },
          workspace};
};

constexpr auto kAttentionGradient = []<class T>(const OpInstance& op,
                                                const CpuEnvironment& environment) -> PreparedKernel {
  const AttentionKernels<T> kernels = attention_kernels(environment.instruction_set()).of<T>();
  const int threads = environment.threads();
  AttentionPlan plan(op, 6);
  const std::int64_t workspace = kernels.gradient_workspace_bytes(plan.at(StepContext{}), threads);
  return {[=](const KernelArguments& arguments) mutable {
            kernels.gradient(plan.at(arguments), in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2),
                             in<T>(arguments, 3), in<float>(arguments, 4), in<T>(arguments, 5), arguments.results[0],
                             arguments.results[1], arguments.results[2], arguments.workspace, threads);
          },
          workspace};
};

}  // namespace

void register_attention(Registration& registration) {
  // With and without a bias, and the documents of queries and keys.
  for (const bool bias : {false, true}) {
    for (const std::string documents : {"", "ii"}) {
      const std::string optional = (bias ? "t" : "") + documents;
      add(registration, {"attention", "ttt" + optional, "rf", false, devices::unsupported_attention_types}, kAttention);
      add(registration,
          {"attention_gradient", "ttttft" + optional, bias ? "rrrr" : "rrr", false,
           devices::unsupported_attention_types},
          kAttentionGradient);
    }
  }
  add(registration, {"attention_merge", "ffff", "ff"}, prepare_attention_merge);
}

}  // namespace strata::cpu

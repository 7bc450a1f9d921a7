#pragma once

#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "kernels/attention_softmax.cuh"
#include "language/launch.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/random.hpp"

/// \file
/// The parts that all implementations of attention share: the description of launches and their operands.

namespace strata::cuda {

/// Describes launches for operands q [batch seq heads… head_dim], k and v, and those of gradients. A bias may follow.
/// The last two operands may be the documents of queries and keys.
class AttentionPlan {
 public:
  AttentionPlan(const OpInstance& op, const StepValues* step)
      : op_(op),
        reals_(op.operands.size() - (op.operands.back().dtype == DType::i32 ? 2 : 0)),
        without_bias_(op.op == "attention" ? 3 : 6) {
    const Shape& queries = op.operands[0].shape;
    const Shape& keys = op.operands[1].shape;
    shape_.batch = static_cast<int>(queries[0]);
    shape_.queries = static_cast<int>(queries[1]);
    shape_.keys = static_cast<int>(keys[1]);
    shape_.width = static_cast<int>(queries.back());
    shape_.heads = static_cast<int>(element_count(queries) / (queries[0] * queries[1] * queries.back()));
    shape_.kv_heads = static_cast<int>(element_count(keys) / (keys[0] * keys[1] * keys.back()));
    shape_.causal = op.attributes.flag("causal");
    if (op.attributes.has("window") && op.attributes.integer("window") > 0) {
      shape_.reach = std::min(op.attributes.integer("window"), shape_.reach);
    }
    shape_.f32_results = op.results[0].dtype == DType::f32;
    const AttentionScores scores = attention_scores(op);
    shape_.scale = scores.scale;
    shape_.inverse_scale = 1 / scores.scale;
    shape_.product_cap = scores.cap / scores.scale;
    shape_.binary_scale = scores.scale * kLog2E;
    shape_.query_positions = dim_index_map(op, op.operands[0].dims[1]);
    shape_.key_positions = dim_index_map(op, op.operands[1].dims[1]);
    const double probability = op.attributes.number("dropout");
    shape_.dropout.threshold = random::drop_threshold(probability);
    shape_.dropout.kept_factor = 1.0 / (1.0 - probability);
    if (probability == 0) return;
    shape_.dropout.stream = {random::stream_base(op.seed, op.name), step};
    shape_.dropout.samples = dim_index_map(op, samples());
    shape_.dropout.heads = dims_index_map(op, Dims(op.operands[0].dims.begin() + 2, op.operands[0].dims.end() - 1));
  }

  [[nodiscard]] const AttentionShape& shape() const { return shape_; }
  [[nodiscard]] bool has_bias() const { return reals_ > without_bias_; }

  [[nodiscard]] AttentionShape at(const KernelArguments& arguments) const {
    AttentionShape shape = shape_;
    shape.dropout.samples.offset =
        micro_batch_offset(op_, samples(), shape.dropout.samples, arguments.context.micro_batch);
    shape.has_aligned_rows = has_aligned_rows(arguments);
    if (has_bias()) shape.bias = arguments.operands[without_bias_];
    if (reals_ < arguments.operands.size()) {
      shape.query_documents = in<std::int32_t>(arguments, reals_);
      shape.key_documents = in<std::int32_t>(arguments, reals_ + 1);
    }
    return shape;
  }

  /// The geometry of a kernel in which each block has a tile of `rows` rows of one head, out of `length` rows.
  [[nodiscard]] Geometry geometry(int length, int rows, int heads, int threads, std::size_t shared_bytes) const {
    Geometry geometry;
    geometry.grid = {blocks_for(length, rows), static_cast<unsigned>(heads), static_cast<unsigned>(shape_.batch)};
    geometry.block = {static_cast<unsigned>(threads)};
    geometry.shared_bytes = shared_bytes;
    return geometry;
  }
  [[nodiscard]] Geometry by_queries(int rows, int threads, std::size_t shared_bytes) const {
    return geometry(shape_.queries, rows, shape_.heads, threads, shared_bytes);
  }
  [[nodiscard]] Geometry by_keys(int rows, int threads, std::size_t shared_bytes) const {
    return geometry(shape_.keys, rows, shape_.kv_heads, threads, shared_bytes);
  }
  /// Number of blocks of `rows` queries of a head, for all samples.
  [[nodiscard]] std::int64_t query_blocks(int rows) const {
    return std::int64_t{blocks_for(shape_.queries, rows)} * shape_.batch;
  }

 private:
  [[nodiscard]] const Dim& samples() const { return op_.operands[0].dims[0]; }

  [[nodiscard]] bool has_aligned_rows(const KernelArguments& arguments) const {
    bool is_true = shape_.width * size_of(op_.operands[0].dtype) % 16 == 0;
    for (const void* operand : arguments.operands.first(reals_)) is_true = is_true && is_aligned(operand);
    for (const void* result : arguments.results) is_true = is_true && is_aligned(result);
    return is_true;
  }

  OpInstance op_;
  /// Number of operands without documents.
  std::size_t reals_;
  /// Number of operands without bias and documents.
  std::size_t without_bias_;
  AttentionShape shape_;
};

/// Workspace of the gradient: a QueryStatistic for each query and head, and from `bias_sums_at` on the blocks' sums of
/// the gradient of the bias.
template <class T>
struct GradientArguments {
  GradientArguments(const KernelArguments& arguments, std::int64_t bias_sums_at)
      : q(in<T>(arguments, 0)),
        k(in<T>(arguments, 1)),
        v(in<T>(arguments, 2)),
        o(in<T>(arguments, 3)),
        log_sum_exponential(in<Accumulate<T>>(arguments, 4)),
        d_o(in<T>(arguments, 5)),
        d_q(arguments.results[0]),
        d_k(arguments.results[1]),
        d_v(arguments.results[2]),
        statistics(workspace_at<QueryStatistic<Accumulate<T>>>(arguments, 0)),
        stream(arguments.stream) {
    if (arguments.results.size() <= kBiasGradient) return;
    d_bias = arguments.results[kBiasGradient];
    bias_sums = workspace_at<Accumulate<T>>(arguments, bias_sums_at);
  }

  /// The result that is the gradient of the bias.
  static constexpr std::size_t kBiasGradient = 3;

  const T* q;
  const T* k;
  const T* v;
  const T* o;
  const Accumulate<T>* log_sum_exponential;
  const T* d_o;
  void* d_q;
  void* d_k;
  void* d_v;
  /// Null without a bias.
  void* d_bias = nullptr;
  Accumulate<T>* bias_sums = nullptr;
  QueryStatistic<Accumulate<T>>* statistics;
  Stream stream;
};

/// The kernels on tensor cores, for heads of up to Width columns in bf16 or f16. `Columns`: tiles are so many queries
/// or keys wide.
template <class T, int Width, int Columns>
struct MatrixUnits {
  /// Queries of a block that computes their gradient.
  static int query_gradient_rows();
  /// The most shared memory that a block of these kernels asks for.
  static std::size_t shared_bytes(bool is_general);
  static void forward(const AttentionPlan& plan, const KernelArguments& arguments);
  static void gradient(const AttentionPlan& plan, const AttentionShape& shape, const GradientArguments<T>& given);
};

/// The kernels on ordinary arithmetic units, for all other heads.
template <class T>
struct PlainUnits {
  static int query_gradient_rows();
  static void forward(const AttentionPlan& plan, const KernelArguments& arguments);
  static void gradient(const AttentionPlan& plan, const AttentionShape& shape, const GradientArguments<T>& given);
};

/// The gradient of the bias, from the sums of blocks of `rows` queries.
template <class T>
struct BiasGradient {
  static std::int64_t workspace_bytes(const AttentionPlan& plan, int rows);
  static void launch(const AttentionPlan& plan, const GradientArguments<T>& given, int rows);
};

inline constexpr int kNarrowHead = 64;
inline constexpr int kWideHead = 128;
/// The widest head that PlainUnits supports.
inline constexpr int kWidestHead = 256;

}  // namespace strata::cuda

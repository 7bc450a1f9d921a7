#pragma once

#include <cstdint>

#include "kernels/kernel_family.hpp"
#include "shared/broadcast_shape.hpp"

namespace strata::cpu {

using devices::BroadcastShape;

/// Arithmetic on flat buffers of `size` elements. An output may be the same buffer as an input.
template <class T>
struct ElementwiseKernels {
  /// z = x + y
  void (*add)(std::int64_t size, const T* x, const T* y, T* z, int threads);
  /// z[sizes...] = x[sizes...] + y[present dims...]
  void (*add_broadcast)(const BroadcastShape& shape, const T* x, const T* y, T* z, int threads);
  /// z = x * y; with `accumulate`, z += x * y
  void (*multiply)(std::int64_t size, const T* x, const T* y, T* z, bool accumulate, int threads);
  /// z[sizes...] = x[sizes...] * y[present dims...]
  void (*multiply_broadcast)(const BroadcastShape& shape, const T* x, const T* y, T* z, int threads);
  /// y = inputs[0] + inputs[1] + ..., in this order; with `accumulate`, y += that sum
  void (*sum)(std::int64_t size, const T* const* inputs, int count, T* y, bool accumulate, int threads);
  /// y = factor * x
  void (*scale)(std::int64_t size, float factor, const T* x, T* y, int threads);
  /// y[sizes...] = x[sizes...] / (√squares[present dims...] + epsilon)
  void (*normalize)(const BroadcastShape& shape, float epsilon, const T* x, const float* squares, T* y, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<ElementwiseKernels>, elementwise_kernels);

/// Sums. The division into partial sums depends on the shape only, so results do not depend on the number of threads.
template <class T>
struct ReduceKernels {
  /// y[present dims...] = x[sizes...] summed over the dims that are not present; with `accumulate`, y += that sum
  void (*sum)(const BroadcastShape& shape, const T* x, float* y, bool accumulate, int threads);
  /// The sum of x[i]^2, in f64
  double (*sum_of_squares)(std::int64_t size, const T* x, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<ReduceKernels>, reduce_kernels);

/// Converts elements from one type to another, rounding to the nearest, ties to even. NaN stays NaN.
struct ConversionKernels {
  /// y = x; with `accumulate`, y += x
  void (*convert)(std::int64_t size, Element from, const void* x, Element to, void* y, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ConversionKernels, conversion_kernels);

/// A pointwise activation function f on flat buffers. An output may be the same buffer as an input.
template <class T>
struct ActivationKernels {
  /// y = f(x)
  void (*forward)(std::int64_t size, const T* x, T* y, int threads);
  /// dx = dy * f'(x), where x is the input of the forward pass; with `accumulate`, dx += dy * f'(x)
  void (*gradient)(std::int64_t size, const T* dy, const T* x, T* dx, bool accumulate, int threads);
  /// y = f(gate) * up
  void (*gated_forward)(std::int64_t size, const T* gate, const T* up, T* y, int threads);
  /// dgate = dy * up * f'(gate), dup = dy * f(gate); with `accumulate`, both are added to
  void (*gated_gradient)(std::int64_t size, const T* dy, const T* gate, const T* up, T* dgate, T* dup, bool accumulate,
                         int threads);
};

/// cap · tanh(x / cap) on flat buffers. An output may be the same buffer as an input.
template <class T>
struct SoftCapKernels {
  void (*forward)(std::int64_t size, float cap, const T* x, T* y, int threads);
  /// dx = dy · (1 - (y / cap)²), where y is the result of the forward pass; with `accumulate`, dx += that
  void (*gradient)(std::int64_t size, float cap, const T* dy, const T* y, T* dx, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<SoftCapKernels>, soft_cap_kernels);

/// The kernels of one function, with its name in strata::activation_functions().
struct NamedActivation {
  const char* kind;
  ByElement<ActivationKernels> kernels;
};

/// All functions that have kernels.
struct ActivationTable {
  const NamedActivation* rows;
  std::int64_t count;
};

STRATA_CPU_KERNEL_FAMILY(ActivationTable, activation_kernels);

/// Layer norm of x[rows, columns] over its columns, y = (x - mean) * inverse * gain + bias, where `inverse` is that of
/// the standard deviation; or RMS norm, y = x * inverse * gain, where it is that of the root of the mean square.
/// Statistics, parameters and their gradients are f32. `bias`, `mean` and `dbias` are null in RMS norm.
template <class T>
struct NormKernels {
  /// y[rows, columns], mean[rows], inverse[rows]
  void (*forward)(std::int64_t rows, std::int64_t columns, float epsilon, const T* x, const float* gain,
                  const float* bias, T* y, float* mean, float* inverse, int threads);
  /// dx[rows, columns]; with `accumulate`, dx += the gradient
  void (*input_gradient)(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* gain,
                         const float* mean, const float* inverse, T* dx, bool accumulate, int threads);
  /// dgain[columns], dbias[columns]; with `accumulate`, the gradients are added to them
  void (*parameter_gradient)(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* mean,
                             const float* inverse, float* dgain, float* dbias, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<NormKernels>, layer_norm_kernels);
STRATA_CPU_KERNEL_FAMILY(ByElement<NormKernels>, rms_norm_kernels);

/// Look-up in table[rows, columns] by global row number. The rows may be sharded. The table's gradient is f32.
template <class T>
struct EmbeddingKernels {
  /// y[count, columns] = table[ids[count]]. Rows are 0 if the id is below zero or in another shard.
  void (*forward)(std::int64_t count, std::int64_t rows, std::int64_t columns, const IndexMap& row_indices,
                  const T* table, const std::int32_t* ids, T* y, int threads);
  /// dtable[ids[i]] += dy[i] in ascending i, so the result does not depend on the number of threads.
  void (*gradient)(std::int64_t count, std::int64_t rows, std::int64_t columns, const IndexMap& row_indices,
                   const T* dy, const std::int32_t* ids, float* dtable, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<EmbeddingKernels>, embedding_kernels);

/// The pieces of cross-entropy over logits x[rows, columns], whose columns (the vocabulary) may be sharded. A target
/// below zero is ignored: it adds nothing to the loss and has gradient 0. Values per row are f32.
template <class T>
struct CrossEntropyKernels {
  /// m[rows] = maximum of each row
  void (*row_max)(std::int64_t rows, std::int64_t columns, const T* x, float* m, int threads);
  /// s[rows] = sum over the row of exp(x - m)
  void (*sum_exponentials)(std::int64_t rows, std::int64_t columns, const T* x, const float* m, float* s, int threads);
  /// picked[rows] = logit of the row's target; 0 if the target is ignored or in another shard
  void (*pick)(std::int64_t rows, std::int64_t columns, const IndexMap& vocabulary, const T* x,
               const std::int32_t* targets, float* picked, int threads);
  /// dx[rows, columns] = exp(x - lse) - (column is the target). dx may be x.
  void (*gradient)(std::int64_t rows, std::int64_t columns, const IndexMap& vocabulary, const T* x, const float* lse,
                   const std::int32_t* targets, T* dx, int threads);
};

/// The pieces of cross-entropy on values per row, which are f32.
struct RowLossKernels {
  /// lse[rows] = m + log(s)
  void (*log_sum_exponential)(std::int64_t rows, const float* m, const float* s, float* lse, int threads);
  /// Sum over targets >= 0 of lse - picked
  double (*loss_sum)(std::int64_t rows, const float* lse, const float* picked, const std::int32_t* targets);
  /// Number of targets >= 0
  std::int64_t (*count_targets)(std::int64_t rows, const std::int32_t* targets);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<CrossEntropyKernels>, cross_entropy_kernels);
STRATA_CPU_KERNEL_FAMILY(RowLossKernels, row_loss_kernels);

/// Selects the dropped elements: Philox4x32-10, keyed by `stream_key` and indexed by the element's global flat index.
struct DropoutSettings {
  double probability = 0.0;
  std::uint64_t stream_key = 0;
};

template <class T>
struct DropoutKernels {
  /// y = (keep ? x / (1 - probability) : 0) + residual, for x[dims...]. `residual` may be null. The gradient is the
  /// same function of dy. With `accumulate`, y += the result.
  void (*forward)(const DropoutSettings& settings, const IndexedDim* dims, int count, const T* x, const T* residual,
                  T* y, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<DropoutKernels>, dropout_kernels);

/// The rotary angles of the rows of x[rows, 2 * pairs].
struct RotaryAngles {
  /// The dims of rows, and which of them positions have.
  devices::BroadcastShape rows;
  const std::int32_t* positions = nullptr;
  /// cos[table_rows, pairs] and sin[table_rows, pairs]. A row with a position outside of the table is copied.
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t table_rows = 0;
  std::int64_t pairs = 0;
  /// Features of a row. Those behind the pairs are copied.
  std::int64_t features = 0;
  /// 1, or -1 for the opposite angles.
  float direction = 1;
};

template <class T>
struct RopeKernels {
  /// For every row and every i < pairs, rotates (x[i], x[i + pairs]). y may be x. With `accumulate`, y += the result;
  /// then y is not x.
  void (*rotate)(std::int64_t rows, const RotaryAngles& angles, const T* x, T* y, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<RopeKernels>, rope_kernels);

/// A weight [outer length inner] in blocks along `length`. See strata/internal/weight_blocks.hpp for the data format.
struct CodedWeight {
  /// The 16 numbers of 4-bit codes. Null: the codes are integers of 8 bits.
  const float* numbers = nullptr;
  std::int64_t block = 64;
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
};

template <class T>
struct WeightKernels {
  /// codes, scales -> y[outer length inner]
  void (*dequantize)(const CodedWeight& weight, const std::int8_t* codes, const float* scales, T* y, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<WeightKernels>, weight_kernels);

/// Runs of numbers in blocks with a common scale. The last block of a run may be shorter.
struct QuantizedBlocks {
  int bits = 8;  ///< 8, or 4: two integers per byte, the first in its lower half
  std::int64_t block = 256;
  std::int64_t length = 0;  ///< numbers per run
  std::int64_t runs = 0;
  std::int64_t sources = 1;  ///< number of quantised operands that are dequantised and summed
};

/// Blockwise quantisation to symmetric integers. See strata/internal/quantization.hpp for the data format.
template <class T>
struct QuantizationKernels {
  /// x[runs, length] -> integers, scales
  void (*quantize)(const QuantizedBlocks& shape, const T* x, std::int8_t* integers, float* scales, int threads);
  /// integers, scales, each `sources` times -> y[runs, length], the sum over the sources in their order
  void (*dequantize)(const QuantizedBlocks& shape, const std::int8_t* integers, const float* scales, T* y, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<QuantizationKernels>, quantization_kernels);

/// c[rows, columns] = a[rows, depth] · b[depth, columns] + bias[columns], for few rows.
struct RowProductShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool transpose_b = false;  ///< b is stored as [columns, depth]
  bool accumulate = false;   ///< true: adds to the contents of c
};

/// The most rows that a product takes.
inline constexpr std::int64_t kProductRows = 8;

/// Matrix products that are limited by reading b, as those of single tokens are. They read b once, in order.
template <class T>
struct RowProductKernels {
  /// `bias`: null for none. c is f32 if `result` says so, else T.
  void (*multiply)(const RowProductShape& shape, const T* a, const T* b, const T* bias, Element result, void* c,
                   int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<RowProductKernels>, row_product_kernels);

}  // namespace strata::cpu

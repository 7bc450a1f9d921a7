#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/attention_shape.cuh"
#include "launchers/attention_plan.hpp"

namespace strata::cuda {

inline constexpr int kLanesPerRowProduct = 8;
inline constexpr int kRowProductThreads = 256;
inline constexpr int kRowsPerRowProductBlock = kRowProductThreads / kLanesPerRowProduct;

/// products[sample, head, query] = o · d_o. Each group of lanes has a row. Neighbouring groups have neighbouring heads,
/// whose rows are adjacent in memory.
template <class T>
__global__ void __launch_bounds__(kRowProductThreads)
    attention_row_product_kernel(const __grid_constant__ AttentionShape shape, const T* o, const T* d_o,
                                 Accumulate<T>* products) {
  constexpr int kPack = kPackedElements<T>;
  const int lane = static_cast<int>(threadIdx.x) % kLanesPerRowProduct;
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerRowProductBlock + threadIdx.x / kLanesPerRowProduct;
  const bool is_there = row < shape.rows();
  const T* output = o + row * shape.width;
  const T* gradient = d_o + row * shape.width;
  Accumulate<T> sum = 0;
  if (is_there && shape.has_aligned_rows) {
    for (int j = lane * kPack; j < shape.width; j += kLanesPerRowProduct * kPack) {
      const Packed<T> left = load_packed(output + j);
      const Packed<T> right = load_packed(gradient + j);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum += widen(left[i]) * widen(right[i]);
    }
  } else if (is_there) {
    for (int j = lane; j < shape.width; j += kLanesPerRowProduct) sum += widen(output[j]) * widen(gradient[j]);
  }
  sum = warp_reduce<kLanesPerRowProduct>(sum, Sum{});
  if (!is_there || lane != 0) return;
  const std::int64_t position = row / shape.heads;  // index of (sample, query)
  const int head = static_cast<int>(row % shape.heads);
  const int sample = static_cast<int>(position / shape.queries);
  products[shape.statistics(sample, head) + position % shape.queries] = sum;
}

namespace {

/// Largest number of heads, and of samples, in a grid.
constexpr std::int64_t kMaxGridSide = 65535;

/// Calls function.operator()<Units>() with the kernels for heads of `width` columns.
template <class T, class Function>
PreparedKernel with_units(std::int64_t width, const CudaEnvironment& environment, const Function& function) {
  if constexpr (sizeof(T) == 2) {
    if (width <= kNarrowHead && MatrixUnits<T, kNarrowHead>::fits(environment)) {
      return function.template operator()<MatrixUnits<T, kNarrowHead>>();
    }
    if (width <= kWideHead && MatrixUnits<T, kWideHead>::fits(environment)) {
      return function.template operator()<MatrixUnits<T, kWideHead>>();
    }
  }
  return function.template operator()<PlainUnits<T>>();
}

std::optional<std::string> unsupported_attention(const OpInstance& op) {
  for (const OperandDescription& result : op.results) {
    const bool fits = result.dtype == op.results[0].dtype || (op.op == "attention" && &result == &op.results[1]);
    if (fits && (result.dtype == DType::f32 || result.dtype == op.operands[0].dtype)) continue;
    return "results cannot be " + std::string(to_string(result.dtype)) + " where operands are " +
           std::string(to_string(op.operands[0].dtype));
  }
  const Shape& queries = op.operands[0].shape;
  if (queries.back() > kWidestHead) {
    return "heads cannot be " + std::to_string(queries.back()) + " wide, up to " + std::to_string(kWidestHead) +
           " are accepted";
  }
  const std::int64_t heads = element_count(queries) / (queries[0] * queries[1] * queries.back());
  if (heads > kMaxGridSide || queries[0] > kMaxGridSide) {
    return std::to_string(heads) + " heads of " + std::to_string(queries[0]) + " samples are too many, up to " +
           std::to_string(kMaxGridSide) + " of each are accepted";
  }
  try {
    const AttentionPlan plan(op, nullptr);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return std::nullopt;
}

PreparedKernel prepare_attention(const OpInstance& op, const CudaEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return with_units<T>(columns(op.operands[0]), environment, [&]<class Units>() -> PreparedKernel {
      return {[plan = AttentionPlan(op, environment.step_values())](const KernelArguments& arguments) {
        Units::forward(plan, arguments);
      }};
    });
  });
}

PreparedKernel prepare_attention_gradient(const OpInstance& op, const CudaEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return with_units<T>(columns(op.operands[0]), environment, [&]<class Units>() -> PreparedKernel {
      const AttentionPlan plan(op, environment.step_values());
      const std::int64_t rows = plan.shape().rows();
      WorkspacePlan workspace;
      workspace.reserve(rows * static_cast<std::int64_t>(sizeof(Accumulate<T>)));
      return {[=](const KernelArguments& arguments) {
                const GradientArguments<T> given(arguments);
                const AttentionShape shape = plan.at(arguments);
                Geometry geometry;
                geometry.grid.x = blocks_for(rows, kRowsPerRowProductBlock);
                geometry.block.x = kRowProductThreads;
                launch(attention_row_product_kernel<T>, geometry, arguments.stream, shape, given.o, given.d_o,
                       given.products);
                Units::gradient(plan, shape, given);
              },
              workspace.bytes()};
    });
  });
}

}  // namespace

void register_attention(Registration& registration) {
  // With and without the documents of queries and keys.
  for (const std::string documents : {"", "ii"}) {
    registration.add(kernel({"attention", "ttt" + documents, "rf", prepare_attention, false, unsupported_attention}));
    registration.add(kernel(
        {"attention_gradient", "ttttft" + documents, "rrr", prepare_attention_gradient, false, unsupported_attention}));
  }
}

}  // namespace strata::cuda

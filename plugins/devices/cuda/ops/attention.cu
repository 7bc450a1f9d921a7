#include "kernels/attention_row_product.cuh"
#include "ops/attention_plan.hpp"
#include "ops/operations.hpp"

namespace strata::cuda {
namespace {

/// Grids have no more than this many heads, or samples.
constexpr std::int64_t kMaxGridSide = 65535;

/// Calls function.operator()<Units>() with the kernels for heads of `width` columns.
template <class T, class Function>
PreparedOp with_units(std::int64_t width, const Environment& environment, const Function& function) {
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

}  // namespace

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
    const AttentionPlan plan(op, Environment{});
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return std::nullopt;
}

PreparedOp prepare_attention(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return with_units<T>(columns(op.operands[0]), environment, [&]<class Units>() -> PreparedOp {
      return {[plan = AttentionPlan(op, environment)](const KernelArguments& arguments, Stream stream) {
        Units::forward(plan, arguments, stream);
      }};
    });
  });
}

PreparedOp prepare_attention_gradient(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return with_units<T>(columns(op.operands[0]), environment, [&]<class Units>() -> PreparedOp {
      const AttentionPlan plan(op, environment);
      const std::int64_t rows = plan.shape().rows();
      WorkspacePlan workspace;
      workspace.reserve(rows * static_cast<std::int64_t>(sizeof(Accumulate<T>)));
      return {[=](const KernelArguments& arguments, Stream stream) {
                const GradientArguments<T> given(arguments, stream);
                const AttentionShape shape = plan.at(arguments);
                Geometry geometry;
                geometry.grid.x = blocks_for(rows, kRowsPerRowProductBlock);
                geometry.block.x = kRowProductThreads;
                launch(attention_row_product_kernel<T>, geometry, stream, shape, given.o, given.d_o, given.products);
                Units::gradient(plan, shape, given);
              },
              workspace.bytes()};
    });
  });
}

}  // namespace strata::cuda

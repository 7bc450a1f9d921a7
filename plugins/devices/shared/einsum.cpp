#include "shared/einsum.hpp"

#include <utility>

namespace strata::devices {
namespace {

bool has(const OperandDescription& operand, const Dim& dim) { return contains(operand.dims, dim); }

std::int64_t size_of_dim(const OperandDescription& operand, const Dim& dim) {
  return operand.shape[static_cast<std::size_t>(find_dim(operand.dims, dim))];
}

/// Distance, in elements, between neighbours along `dim`; 0 if the operand lacks it.
std::int64_t stride_of_dim(const OperandDescription& operand, const Dim& dim) {
  const int position = find_dim(operand.dims, dim);
  if (position < 0) return 0;
  return element_count(Shape(operand.shape.begin() + position + 1, operand.shape.end()));
}

Dims joined(Dims first, const Dims& second, const Dims& third) {
  first.insert(first.end(), second.begin(), second.end());
  first.insert(first.end(), third.begin(), third.end());
  return first;
}

std::int64_t product(const Dims& dims, const OperandDescription& operand) {
  std::int64_t result = 1;
  for (const Dim& dim : dims) result *= size_of_dim(operand, dim);
  return result;
}

/// The dims that both operands have and the result lacks, in the order of `operand`.
Dims contracted_dims(const OperandDescription& operand, const OperandDescription& other, const OperandDescription& y) {
  Dims dims;
  for (const Dim& dim : operand.dims) {
    if (has(other, dim) && !has(y, dim)) dims.push_back(dim);
  }
  return dims;
}

/// The operand with its dims in another order.
OperandDescription reordered(const OperandDescription& operand, const Dims& dims) {
  OperandDescription result{operand.dtype, dims, {}};
  for (const Dim& dim : dims) result.shape.push_back(size_of_dim(operand, dim));
  return result;
}

/// Several dims taken as one.
struct WalkedDims {
  std::int64_t size = 1;
  std::int64_t stride = 0;
};

/// The dims of an operand taken as one. Empty if steps along them, in this order, do not have equal distances.
std::optional<WalkedDims> walk(const OperandDescription& operand, const Dims& dims) {
  WalkedDims walked;
  for (const Dim& dim : dims) {
    const std::int64_t size = size_of_dim(operand, dim);
    if (size == 1) continue;
    const std::int64_t stride = stride_of_dim(operand, dim);
    if (walked.size > 1 && walked.stride != size * stride) return std::nullopt;
    walked.size *= size;
    walked.stride = stride;
  }
  return walked;
}

/// The layout of contiguous [batch, first, second].
MatrixLayout contiguous_layout(std::int64_t first, std::int64_t second) { return {false, second, first * second}; }

/// The layout of an operand as [batch, first, second] without packing. Empty if it needs packing.
std::optional<MatrixLayout> layout_of(const OperandDescription& operand, const Dims& batch, const Dims& first,
                                      const Dims& second, MatrixLayouts layouts) {
  const auto matrices = walk(operand, batch);
  const auto rows = walk(operand, first);
  const auto columns = walk(operand, second);
  if (!matrices || !rows || !columns) return std::nullopt;

  // A matrix with one row or one column has both layouts.
  const auto lies_along = [](const WalkedDims& outer, const WalkedDims& inner) {
    return (inner.size == 1 || inner.stride == 1) && (outer.size == 1 || outer.stride >= inner.size);
  };
  MatrixLayout layout{.transposed = !lies_along(*rows, *columns), .batch_stride = matrices->stride};
  if (layout.transposed && !lies_along(*columns, *rows)) return std::nullopt;
  const WalkedDims& outer = layout.transposed ? *columns : *rows;
  const WalkedDims& inner = layout.transposed ? *rows : *columns;
  layout.leading = outer.size == 1 ? inner.size : outer.stride;

  const bool is_contiguous =
      layout.leading == inner.size && (matrices->size == 1 || matrices->stride == inner.size * outer.size);
  if (layouts == MatrixLayouts::contiguous && !is_contiguous) return std::nullopt;
  return layout;
}

}  // namespace

Permutation permutation_to(const OperandDescription& part, const OperandDescription& whole) {
  Permutation permutation;
  for (std::size_t i = 0; i < whole.dims.size(); ++i) {
    const std::int64_t size = whole.shape[i];
    if (size == 1) continue;
    const std::int64_t stride = stride_of_dim(part, whole.dims[i]);
    // Merge neighbouring dims that stay neighbours.
    if (!permutation.sizes.empty() && permutation.strides.back() == size * stride) {
      permutation.sizes.back() *= size;
      permutation.strides.back() = stride;
    } else {
      permutation.sizes.push_back(size);
      permutation.strides.push_back(stride);
    }
  }
  if (permutation.sizes.empty()) return {{1}, {1}};
  return permutation;
}

std::optional<std::string> unsupported_einsum(const OperandDescription& x, const OperandDescription& w,
                                              const OperandDescription& y) {
  if (x.dtype != w.dtype) return "operands differ in type";
  for (const Dim& dim : y.dims) {
    if (!has(x, dim) && !has(w, dim)) return "no operand has dim '" + dim + "'";
  }
  for (const auto& [operand, other] : {std::pair{&x, &w}, std::pair{&w, &x}}) {
    for (const Dim& dim : operand->dims) {
      if (!has(*other, dim) && !has(y, dim)) return "dim '" + dim + "' stands in one operand only";
    }
  }
  return std::nullopt;
}

EinsumPlan plan_einsum(const OperandDescription& x, const OperandDescription& w, const OperandDescription& y,
                       MatrixLayouts layouts) {
  Dims batch;
  Dims of_x;
  Dims of_w;
  for (const Dim& dim : y.dims) (!has(w, dim) ? of_x : has(x, dim) ? batch : of_w).push_back(dim);

  EinsumPlan plan;
  std::optional<MatrixLayout> result = layout_of(y, batch, of_x, of_w, layouts);
  plan.swapped = result && result->transposed;
  const OperandDescription& a = plan.swapped ? w : x;
  const OperandDescription& b = plan.swapped ? x : w;
  const Dims& of_a = plan.swapped ? of_w : of_x;
  const Dims& of_b = plan.swapped ? of_x : of_w;
  // The larger operand determines the order of the contracted dims, so that the smaller one is packed if they disagree.
  const bool a_is_larger = element_count(a.shape) >= element_count(b.shape);
  const Dims contracted = a_is_larger ? contracted_dims(a, b, y) : contracted_dims(b, a, y);

  plan.batch = product(batch, x);
  plan.rows = product(of_a, a);
  plan.columns = product(of_b, b);
  plan.depth = product(contracted, a);
  plan.c = contiguous_layout(plan.rows, plan.columns);
  if (result) {
    plan.c = *result;
    plan.c.transposed = false;
  } else {
    plan.unpack = permutation_to(reordered(y, joined(batch, of_a, of_b)), y);
  }
  const auto place = [&](const OperandDescription& operand, const Dims& first, const Dims& second, MatrixLayout& layout,
                         std::optional<Permutation>& pack) {
    if (const auto found = layout_of(operand, batch, first, second, layouts)) {
      layout = *found;
      return;
    }
    layout = contiguous_layout(product(first, operand), product(second, operand));
    pack = permutation_to(operand, reordered(operand, joined(batch, first, second)));
  };
  place(a, of_a, contracted, plan.a, plan.pack_a);
  place(b, contracted, of_b, plan.b, plan.pack_b);
  return plan;
}

bool is_over_columns(const EinsumPlan& plan, const OperandDescription& bias, const OperandDescription& y) {
  if (bias.dims.size() > y.dims.size() || !std::equal(bias.dims.rbegin(), bias.dims.rend(), y.dims.rbegin())) {
    return false;
  }
  return plan.batch == 1 && !plan.unpack && plan.columns == element_count(bias.shape);
}

}  // namespace strata::devices

#include "einsum.hpp"

#include <utility>

namespace strata::cpu {
namespace {

bool has(const OperandDescription& operand, const Dim& dim) { return find_dim(operand.dims, dim) >= 0; }

std::int64_t size_of_dim(const OperandDescription& operand, const Dim& dim) {
  return operand.shape[static_cast<std::size_t>(find_dim(operand.dims, dim))];
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

/// The order of `operand`'s dims that lie in both operands and not in the result.
Dims contracted_dims(const OperandDescription& operand, const OperandDescription& other, const OperandDescription& y) {
  Dims dims;
  for (const Dim& dim : operand.dims) {
    if (has(other, dim) && !has(y, dim)) dims.push_back(dim);
  }
  return dims;
}

/// Reads `from` in the order of `to`; neighbours that stay together count as one dim.
Permutation permutation_to(const OperandDescription& from, const Dims& to) {
  Permutation permutation;
  for (const Dim& dim : to) {
    const auto position = static_cast<std::size_t>(find_dim(from.dims, dim));
    const std::int64_t size = from.shape[position];
    std::int64_t stride = 1;
    for (std::size_t i = position + 1; i < from.shape.size(); ++i) stride *= from.shape[i];
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

struct Placement {
  bool transposed = false;
  std::optional<Permutation> pack;
};

/// How an operand serves as [batch, first, second]: as it lies, transposed, or packed.
Placement place(const OperandDescription& operand, const Dims& batch, const Dims& first, const Dims& second) {
  if (operand.dims == joined(batch, first, second)) return {};
  if (operand.dims == joined(batch, second, first)) return {true, std::nullopt};
  return {false, permutation_to(operand, joined(batch, first, second))};
}

}  // namespace

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

EinsumPlan plan_einsum(const OperandDescription& x, const OperandDescription& w, const OperandDescription& y) {
  Dims batch;
  Dims of_x;
  Dims of_w;
  for (const Dim& dim : y.dims) (!has(w, dim) ? of_x : has(x, dim) ? batch : of_w).push_back(dim);

  EinsumPlan plan;
  plan.swapped = y.dims != joined(batch, of_x, of_w) && y.dims == joined(batch, of_w, of_x);
  const OperandDescription& a = plan.swapped ? w : x;
  const OperandDescription& b = plan.swapped ? x : w;
  const Dims& of_a = plan.swapped ? of_w : of_x;
  const Dims& of_b = plan.swapped ? of_x : of_w;
  // The larger operand decides the order of the contracted dims, so that the smaller one is packed if they disagree.
  const bool a_is_larger = element_count(a.shape) >= element_count(b.shape);
  const Dims contracted = a_is_larger ? contracted_dims(a, b, y) : contracted_dims(b, a, y);

  plan.batch = product(batch, x);
  plan.rows = product(of_a, a);
  plan.columns = product(of_b, b);
  plan.depth = product(contracted, a);
  const Placement place_a = place(a, batch, of_a, contracted);
  const Placement place_b = place(b, batch, contracted, of_b);
  plan.transpose_a = place_a.transposed;
  plan.transpose_b = place_b.transposed;
  plan.pack_a = place_a.pack;
  plan.pack_b = place_b.pack;
  const Dims computed = joined(batch, of_a, of_b);
  if (y.dims != computed) {
    OperandDescription product_description{DType::f32, computed, {}};
    for (const Dim& dim : computed) product_description.shape.push_back(size_of_dim(y, dim));
    plan.unpack = permutation_to(product_description, y.dims);
  }
  return plan;
}

}  // namespace strata::cpu

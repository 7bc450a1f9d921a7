#include "launchers/einsum_product.hpp"

namespace strata::cuda {
namespace {

using devices::EinsumPlan;

MatrixPlacement placement(const devices::MatrixLayout& layout) { return {layout.leading, layout.batch_stride}; }

}  // namespace

EinsumPlan plan_of(const OpInstance& op) {
  return devices::plan_einsum(op.operands[0], op.operands[1], op.results[0], devices::MatrixLayouts::strided);
}

MatrixProductShape transposed_product(const EinsumPlan& plan) {
  MatrixProductShape shape;
  shape.batch = plan.batch;
  shape.rows = plan.columns;
  shape.columns = plan.rows;
  shape.depth = plan.depth;
  shape.transpose_a = plan.b.transposed;
  shape.transpose_b = plan.a.transposed;
  shape.a = placement(plan.b);
  shape.b = placement(plan.a);
  shape.d = placement(plan.c);
  return shape;
}

}  // namespace strata::cuda

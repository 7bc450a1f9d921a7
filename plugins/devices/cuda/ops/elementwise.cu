#include "kernels/elementwise.cuh"
#include "ops/map_elements.hpp"
#include "ops/operations.hpp"
#include "ops/strided_index.hpp"
#include "shared/broadcast.hpp"

namespace strata::cuda {
namespace {

template <class T>
PreparedOp prepare_add_broadcast(const OpInstance& op) {
  constexpr std::int64_t kRun = kRunLength<T>;
  const devices::BroadcastShape shape = devices::broadcast_shape(op.operands[0], op.operands[1]);
  const BroadcastOperand operand{part_index(shape), shape.present[shape.count - 1]};
  const bool cut_in_runs = shape.sizes[shape.count - 1] % kRun == 0;
  return {
      [=, size = elements(op.results[0]), accumulate = op.accumulate](const KernelArguments& arguments, Stream stream) {
        const T* x = in<T>(arguments, 0);
        const T* y = in<T>(arguments, 1);
        T* z = out<T>(arguments, 0);
        const bool packed = cut_in_runs && are_aligned(x, z) && (!operand.has_columns || is_aligned(y));
        const std::int64_t of_block = kBroadcastThreads * (packed ? kRun : 1);
        launch(add_broadcast<T>, {{blocks_for(size, of_block)}, {kBroadcastThreads}}, stream, operand, size, packed,
               accumulate, x, y, z);
      }};
}

}  // namespace

std::optional<std::string> unsupported_add(const OpInstance& op) {
  return devices::unsupported_broadcast(op.operands[0], op.operands[1]);
}

PreparedOp prepare_add(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    if (op.operands[0].dims != op.operands[1].dims) return prepare_add_broadcast<T>(op);
    return {map_operands<T, T, T>(op, Add{})};
  });
}

PreparedOp prepare_scale_gradient(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    return {map_operands<T, T>(op, ScaleByLossScale{environment.step})};
  });
}

}  // namespace strata::cuda

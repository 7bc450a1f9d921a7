#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/rope.cuh"
#include "language/launch.hpp"
#include "launchers/strided_index.hpp"
#include "shared/broadcast.hpp"

namespace strata::cuda {
namespace {

OperandDescription rows_of(OperandDescription x) {
  x.dims.pop_back();
  x.shape.pop_back();
  return x;
}

std::optional<std::string> unsupported_rope(const OpInstance& op) {
  return devices::unsupported_broadcast(rows_of(op.operands[0]), op.operands[3]);
}

PreparedKernel prepare_rope(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const RotaryAngles<V> shape{.place = part_index(devices::broadcast_shape(rows_of(op.operands[0]), op.operands[3])),
                                .table_rows = rows(op.operands[1]),
                                .pairs = columns(op.operands[1]),
                                .direction = op.attributes.flag("inverse") ? V{-1} : V{1}};
    return {[=, height = rows(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
      RotaryAngles<V> angles = shape;
      angles.cos = in<V>(arguments, 1);
      angles.sin = in<V>(arguments, 2);
      angles.positions = in<std::int32_t>(arguments, 3);
      const T* x = in<T>(arguments, 0);
      T* y = out<T>(arguments, 0);
      const auto launch_pairs = [&]<int kWidth>() {
        const Geometry geometry{{blocks_for(height * angles.pairs, kRopeThreads * kWidth)}, {kRopeThreads}};
        launch(rotate_pairs<T, kWidth>, geometry, arguments.stream, angles, height, x, y, accumulate);
      };
      const bool packed = angles.pairs % kPackedElements<T> == 0 && are_aligned(x, y, angles.cos, angles.sin);
      packed ? launch_pairs.template operator()<kPackedElements<T>>() : launch_pairs.template operator()<1>();
    }};
  });
}

}  // namespace

void register_rope(Registration& registration) {
  registration.add(kernel({"rope", "tffi", "t", prepare_rope, true, unsupported_rope}));
}

}  // namespace strata::cuda

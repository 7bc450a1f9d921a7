#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"
#include "shared/broadcast.hpp"

namespace strata::cpu {
namespace {

std::optional<std::string> unsupported_rope(const OpInstance& op) {
  return devices::unsupported_broadcast(devices::rows_of(op.operands[0]), op.operands[3]);
}

constexpr auto kRope = []<class T>(const OpInstance& op, const CpuEnvironment& environment) -> PreparedKernel {
  const auto rotate = rope_kernels(environment.instruction_set()).of<T>().rotate;
  const RotaryAngles shape{.rows = devices::broadcast_shape(devices::rows_of(op.operands[0]), op.operands[3]),
                           .table_rows = rows(op.operands[1]),
                           .pairs = columns(op.operands[1]),
                           .features = columns(op.operands[0]),
                           .direction = op.attributes.flag("inverse") ? -1.0F : 1.0F};
  return {[=, height = rows(op.operands[0]), accumulate = op.accumulate,
           threads = environment.threads()](const KernelArguments& arguments) {
    RotaryAngles angles = shape;
    angles.cos = in<float>(arguments, 1);
    angles.sin = in<float>(arguments, 2);
    angles.positions = in<std::int32_t>(arguments, 3);
    rotate(height, angles, in<T>(arguments, 0), out<T>(arguments, 0), accumulate, threads);
  }};
};

}  // namespace

void register_rope(Registration& registration) {
  add(registration, {"rope", "tffi", "t", true, unsupported_rope}, kRope);
}

}  // namespace strata::cpu

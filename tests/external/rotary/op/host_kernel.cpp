#include "op/kernels.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"
#include "strata/kernel_tools.hpp"

namespace rotary {
namespace {

using namespace strata;

struct Float32 {
  using Bits = float;
  static float load(Bits bits) { return bits; }
  static Bits store(float value) { return value; }
};
struct BFloat16 {
  using Bits = std::uint16_t;
  static float load(Bits bits) { return from_bf16(bits); }
  static Bits store(float value) { return to_bf16(value); }
};
struct Float16 {
  using Bits = std::uint16_t;
  static float load(Bits bits) { return from_f16(bits); }
  static Bits store(float value) { return to_f16(value); }
};

/// Rotates one head. y may alias x.
template <class Element>
void rotate_head(const typename Element::Bits* x, const float* cos, const float* sin, float direction,
                 std::int64_t pairs, typename Element::Bits* y) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = Element::load(x[i]);
    const float b = Element::load(x[i + pairs]);
    const float s = direction * sin[i];
    y[i] = Element::store(a * cos[i] - b * s);
    y[i + pairs] = Element::store(a * s + b * cos[i]);
  }
}

template <class Element>
PreparedKernel prepare_for(const OpInstance& op, const KernelEnvironment& environment) {
  using Bits = typename Element::Bits;
  const Sizes size = sizes_of(op);
  const float direction = op.attributes.flag("inverse") ? -1.0F : 1.0F;
  return {[=, threads = environment.threads()](const KernelArguments& arguments) {
    const auto* x = kernels::in<Bits>(arguments, 0);
    const auto* cos = kernels::in<float>(arguments, 1);
    const auto* sin = kernels::in<float>(arguments, 2);
    auto* y = kernels::out<Bits>(arguments, 0);
    const auto rotate_tokens = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) {
        const std::int64_t angles = token % size.seq * size.pairs;
        for (std::int64_t head = 0; head < size.heads; ++head) {
          const std::int64_t at = (token * size.heads + head) * 2 * size.pairs;
          rotate_head<Element>(x + at, cos + angles, sin + angles, direction, size.pairs, y + at);
        }
      }
    };
    kernels::parallel_ranges(threads, size.batch * size.seq, rotate_tokens, size.heads * 2 * size.pairs);
  }};
}

PreparedKernel prepare(const OpInstance& op, const KernelEnvironment& environment) {
  switch (op.operands[0].dtype) {
    case DType::f32:
      return prepare_for<Float32>(op, environment);
    case DType::bf16:
      return prepare_for<BFloat16>(op, environment);
    case DType::f16:
      return prepare_for<Float16>(op, environment);
    default:
      throw ConfigurationError("op rotary: no kernel for " + std::string(to_string(op.operands[0].dtype)));
  }
}

}  // namespace

KernelDefinition host_kernel() { return {.op = "rotary", .signature = {"tff", "t"}, .prepare = prepare}; }

}  // namespace rotary

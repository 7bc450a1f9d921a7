#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"
#include "weight_blocks.hpp"

namespace strata::reference {
namespace {

Work prepare_dequantize_weight(const OpInstance& op) {
  const BlockedWeight shape = BlockedWeight::from(op);
  return [=](const Launch& launch) {
    const Reader codes = launch.operand(0);
    const Reader scales = launch.operand(1);
    const Writer weight = launch.result(0);
    const WeightBlocks& blocks = shape.blocks;
    for (std::int64_t at = 0; at < shape.elements(); ++at) {
      const std::int64_t inner = at % shape.inner;
      const std::int64_t index = at / shape.inner % shape.length;
      const std::int64_t outer = at / shape.inner / shape.length;
      const CodePlace place = code_place(blocks, shape.length, index);
      const double code = codes[(outer * blocks.bytes(shape.length) + place.byte) * shape.inner + inner];
      const double scale = scales[(outer * blocks.scales(shape.length) + index / blocks.size) * shape.inner + inner];
      weight.set(at, scale * coded_number(blocks.code, static_cast<std::int8_t>(code), place.is_upper));
    }
  };
}

}  // namespace

void register_dequantize_weight(Registration& registration) {
  registration.add(
      kernel({kDequantizeWeight, "bf", "r", prepare_dequantize_weight, true, nullptr, BlockedWeight::mismatch}));
}

}  // namespace strata::reference

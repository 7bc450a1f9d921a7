#include "ops/op_case.hpp"
#include "strata/internal/weight_blocks.hpp"

namespace strata::testing {
namespace {

struct Sizes {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
};

OpCase dequantize(const WeightBlocks& blocks, const Sizes& sizes) {
  OpCase op_case{.name = "dequantize_weight_" + std::string(to_string(blocks.code)) + "_blocks_of_" +
                         std::to_string(blocks.size) + "_" + std::to_string(sizes.outer) + "_" +
                         std::to_string(sizes.length) + "_" + std::to_string(sizes.inner),
                 .op = "dequantize_weight",
                 .sizes = {{"outer", sizes.outer},
                           {"row", sizes.length},
                           {"inner", sizes.inner},
                           {"byte", blocks.bytes(sizes.length)},
                           {"block", blocks.scales(sizes.length)}},
                 .operands = {{{"outer", "byte", "inner"}, Fill::bytes, DType::i8},
                              {.dims = {"outer", "block", "inner"}, .fill = Fill::positive, .full = true}},
                 .attributes = {{"result", "outer row inner"}, {"along", "row"}}};
  blocks.add_to(op_case.attributes);
  return op_case;
}

}  // namespace

std::vector<OpCase> weight_block_cases() {
  const WeightBlocks bytes{WeightCode::int8, 64};
  const WeightBlocks halves{WeightCode::nf4, 64};
  OpCase added = dequantize(halves, {2, 130, 3});
  added.name += "_accumulate";
  added.accumulate = true;
  OpCase short_result = dequantize(halves, {2, 96, 40});
  short_result.name += "_to_bf16";
  short_result.attributes.set("dtype", "bf16");
  OpCase shard = dequantize(halves, {6, 70, 5});
  shard.name += "_shard";
  shard.shards["outer"] = IndexMap{6, {{0, 2, 2}}};
  return {
      // Blocks along the last dimension, and along an earlier one. Blocks that are whole, shorter and of odd length.
      dequantize(bytes, {3, 128, 1}),
      dequantize(bytes, {2, 100, 7}),
      dequantize({WeightCode::int8, 7}, {2, 17, 1}),
      dequantize(halves, {3, 128, 1}),
      dequantize(halves, {3, 101, 1}),
      dequantize(halves, {1, 65, 300}),
      dequantize({WeightCode::nf4, 2}, {2, 9, 2}),
      dequantize({WeightCode::nf4, 600}, {2, 1300, 1}),
      // Enough numbers for several threads.
      dequantize(halves, {300, 768, 1}),
      dequantize(bytes, {1, 768, 300}),
      added,
      short_result,
      shard,
  };
}

}  // namespace strata::testing

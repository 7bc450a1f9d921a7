#include <algorithm>

#include "ops/op_case.hpp"

namespace strata::testing {
namespace {

struct Variant {
  std::string name;
  DimSizes sizes;
  Dims query_heads;
  Dims key_heads;
  bool causal = true;
  double dropout = 0.0;
  std::map<Dim, IndexMap, std::less<>> shards = {};
  int micro_batch = 0;
  bool differentiable = false;
  std::int64_t window = 0;
  bool documents = false;
  /// 0: none.
  double scale = 0.0;
  double cap = 0.0;
  bool bias = false;
};

/// Adds what may follow the other operands: a bias, and documents.
void add_options(OpCase& op_case, const Variant& variant) {
  if (variant.bias) {
    Dims dims = variant.query_heads;
    dims.emplace_back("distance");
    op_case.sizes["distance"] = 2 * variant.sizes.at("seq") - 1;
    op_case.operands.push_back({dims});
  }
  if (!variant.documents) return;
  const CaseOperand documents{.dims = {"batch", "seq"}, .fill = Fill::documents, .dtype = DType::i32};
  op_case.operands.insert(op_case.operands.end(), 2, documents);
}

OpCase forward_case(const Variant& variant) {
  const auto dims = [](const Dims& heads) {
    Dims all = {"batch", "seq"};
    all.insert(all.end(), heads.begin(), heads.end());
    all.emplace_back("head_dim");
    return all;
  };
  const Dims key = dims(variant.key_heads);
  OpCase op_case{.name = "attention_" + variant.name,
                 .op = "attention",
                 .sizes = variant.sizes,
                 .operands = {{dims(variant.query_heads)}, {key}, {key}},
                 .attributes = {{"causal", variant.causal}, {"dropout", variant.dropout}},
                 .shards = variant.shards,
                 .micro_batch = variant.micro_batch,
                 .differentiable = variant.differentiable};
  if (variant.window > 0) op_case.attributes.set("window", variant.window);
  if (variant.scale > 0) op_case.attributes.set("scale", variant.scale);
  if (variant.cap > 0) op_case.attributes.set("cap", variant.cap);
  add_options(op_case, variant);
  return op_case;
}

OpCase gradient_case(const Variant& variant) {
  OpCase op_case = forward_case(variant);
  op_case.name = "attention_gradient_" + variant.name;
  op_case.op = "attention_gradient";
  op_case.differentiable = false;
  op_case.operands.resize(3);
  Dims row_dims = {"batch"};
  row_dims.insert(row_dims.end(), variant.query_heads.begin(), variant.query_heads.end());
  row_dims.emplace_back("seq");
  op_case.operands.push_back(op_case.operands[0]);
  op_case.operands.push_back({.dims = row_dims, .full = true});
  op_case.operands.push_back(op_case.operands[0]);
  add_options(op_case, variant);
  // The operands o and lse are rounded to f32, and exp amplifies the rounding of lse (up to 4 · 2^-24). dP - D is a
  // difference of larger numbers and adds as much again.
  op_case.tolerance = 4e-6;
  return op_case;
}

/// The row with queries along "time", and more keys along "source".
OpCase across(OpCase op_case) {
  op_case.name += "_across";
  op_case.sizes["time"] = op_case.sizes.at("seq");
  op_case.sizes["source"] = op_case.sizes.at("seq") + 4;
  op_case.sizes["distance"] = op_case.sizes.at("time") + op_case.sizes.at("source") - 1;
  for (std::size_t i = 0; i < op_case.operands.size(); ++i) {
    CaseOperand& operand = op_case.operands[i];
    const bool is_of_keys = i == 1 || i == 2 || (operand.dtype == DType::i32 && i + 1 == op_case.operands.size());
    std::replace(operand.dims.begin(), operand.dims.end(), Dim("seq"), Dim(is_of_keys ? "source" : "time"));
  }
  return op_case;
}

/// Merging is in f32 even if attention is not.
OpCase merge_case(const Variant& variant) {
  OpCase op_case = gradient_case(variant);
  op_case.name = "attention_merge_" + variant.name;
  op_case.op = "attention_merge";
  const CaseOperand output{.dims = op_case.operands[0].dims, .full = true};
  const CaseOperand log_sum{.dims = op_case.operands[4].dims, .fill = Fill::masked, .full = true};
  op_case.operands = {output, log_sum, output, log_sum};
  op_case.attributes = {};
  op_case.tolerance = 1e-6;
  return op_case;
}

}  // namespace

std::vector<OpCase> attention_cases() {
  const DimSizes small = {{"batch", 2}, {"seq", 7}, {"heads", 3}, {"kv_heads", 2}, {"group", 2}, {"head_dim", 5}};
  const DimSizes even = {{"batch", 4}, {"seq", 24}, {"heads", 4}, {"kv_heads", 2}, {"group", 3}, {"head_dim", 16}};
  const DimSizes large = {{"batch", 1}, {"seq", 149}, {"heads", 2}, {"kv_heads", 1}, {"group", 2}, {"head_dim", 64}};
  // Two and a half tiles of 64, and five, which ranks share with whole tiles that a mask hides.
  const DimSizes tiled = {{"batch", 1}, {"seq", 160}, {"heads", 1}, {"kv_heads", 1}, {"group", 2}, {"head_dim", 64}};
  DimSizes shared_tiles = tiled;
  shared_tiles["seq"] = 320;
  // Head widths that are no multiple of 16 bytes, and the widest head of matrix units.
  const DimSizes narrow = {{"batch", 1}, {"seq", 75}, {"heads", 2}, {"kv_heads", 1}, {"group", 2}, {"head_dim", 20}};
  const DimSizes wide = {{"batch", 1}, {"seq", 136}, {"heads", 1}, {"kv_heads", 1}, {"group", 2}, {"head_dim", 128}};
  const DimSizes widest = {{"batch", 1}, {"seq", 70}, {"heads", 1}, {"kv_heads", 1}, {"group", 2}, {"head_dim", 144}};
  const Dims heads = {"heads"};
  const Dims kv_heads = {"kv_heads"};
  const Dims grouped = {"kv_heads", "group"};
  const auto zigzag = [](int index) { return shard(24, 2, index, Distribution::zigzag); };
  const auto tiled_zigzag = [](int count, int index) { return shard(320, count, index, Distribution::zigzag); };
  std::vector<Variant> variants = {
      {"causal", small, heads, heads, true, 0.0, {}, 0, true},
      {"whole", small, heads, heads, false, 0.0, {}, 0, true},
      {"grouped", small, grouped, kv_heads, true, 0.0, {}, 0, true},
      {"grouped_dropout", small, grouped, kv_heads, true, 0.25, {}, 0, true},
      {"dropout", small, heads, heads, false, 0.25, {}, 0, true},
      {"large_causal", large, heads, heads, true, 0.0},
      {"large_whole", large, heads, heads, false, 0.0},
      {"large_grouped_dropout", large, grouped, kv_heads, true, 0.1},
      {"zigzag", even, heads, heads, true, 0.0, {{"seq", zigzag(1)}}},
      {"zigzag_dropout", even, heads, heads, true, 0.2, {{"seq", zigzag(0)}}},
      {"second_half", even, heads, heads, true, 0.0, {{"seq", shard(24, 2, 1)}}},
      {"sharded_heads_dropout", even, heads, heads, true, 0.2, {{"heads", shard(4, 2, 1)}}},
      {"sharded_kv_heads_dropout", even, grouped, kv_heads, true, 0.2, {{"kv_heads", shard(2, 2, 1)}}},
      {"sharded_batch_dropout", even, heads, heads, true, 0.2, {{"batch", shard(4, 2, 1)}}, 3},
      // Rows that see no key, as in a ring: all rows, and some.
      {"fully_masked", even, heads, heads, true, 0.2, {{"seq", shard(24, 2, 0)}, {"kv_seq", shard(24, 2, 1)}}},
      {"partly_masked", even, heads, heads, true, 0.2, {{"seq", zigzag(0)}, {"kv_seq", zigzag(1)}}},
      // Tiles that a mask hides, passes and cuts, with local neighbours that are far apart in the sequence.
      {"tiled_zigzag_dropout", shared_tiles, heads, heads, true, 0.1, {{"seq", tiled_zigzag(2, 0)}}},
      {"tiled_zigzag_piece_dropout",
       shared_tiles,
       heads,
       heads,
       true,
       0.1,
       {{"seq", tiled_zigzag(2, 1)}, {"kv_seq", tiled_zigzag(2, 0)}}},
      {"tiled_last_block", shared_tiles, grouped, kv_heads, true, 0.0, {{"seq", shard(320, 2, 1)}}},
      {"tiled_whole_dropout", shared_tiles, heads, heads, false, 0.1, {{"seq", shard(320, 4, 1)}}},
      {"narrow_grouped_dropout", narrow, grouped, kv_heads, true, 0.1},
      {"narrow_whole", narrow, heads, heads, false, 0.0},
      {"wide_grouped_dropout", wide, grouped, kv_heads, true, 0.1},
      {"widest_dropout", widest, heads, heads, true, 0.1},
      {"masked_to_the_past", even, heads, heads, true, 0.0, {{"seq", shard(24, 3, 2)}, {"kv_seq", shard(24, 3, 0)}}},
      {"documents", small, heads, heads, true, 0.0, {}, 0, true, 0, true},
      {"documents_whole", small, heads, heads, false, 0.0, {}, 0, true, 0, true},
      {"window", small, heads, heads, true, 0.0, {}, 0, true, 3},
      {"window_documents_grouped_dropout", small, grouped, kv_heads, true, 0.25, {}, 0, true, 3, true},
      {"window_of_two", small, heads, heads, true, 0.0, {}, 0, false, 2},
      {"large_documents", large, heads, heads, true, 0.0, {}, 0, false, 0, true},
      {"large_documents_whole_dropout", large, grouped, kv_heads, false, 0.1, {}, 0, false, 0, true},
      {"large_window", large, heads, heads, true, 0.0, {}, 0, false, 40},
      {"tiled_documents_grouped_dropout", tiled, grouped, kv_heads, true, 0.1, {}, 0, false, 0, true},
      {"tiled_window", tiled, heads, heads, true, 0.0, {}, 0, false, 50},
      {"tiled_window_documents", tiled, heads, heads, true, 0.0, {}, 0, false, 62, true},
      {"narrow_documents_dropout", narrow, heads, heads, true, 0.1, {}, 0, false, 0, true},
      {"wide_window_documents", wide, grouped, kv_heads, true, 0.0, {}, 0, false, 33, true},
      {"widest_documents", widest, heads, heads, true, 0.0, {}, 0, false, 20, true},
      {"sharded_batch_documents", even, heads, heads, true, 0.2, {{"batch", shard(4, 2, 1)}}, 3, false, 0, true},
      {"zigzag_window_documents", even, heads, heads, true, 0.0, {{"seq", zigzag(1)}}, 0, false, 7, true},
      {"zigzag_piece_window_documents",
       even,
       heads,
       heads,
       true,
       0.2,
       {{"seq", zigzag(0)}, {"kv_seq", zigzag(1)}},
       0,
       false,
       9,
       true},
      {"tiled_zigzag_piece_window_documents",
       shared_tiles,
       heads,
       heads,
       true,
       0.1,
       {{"seq", tiled_zigzag(2, 1)}, {"kv_seq", tiled_zigzag(2, 0)}},
       0,
       false,
       100,
       true},
      // Caps so low that they bend most scores.
      {"scaled", small, heads, heads, true, 0.0, {}, 0, true, 0, false, 0.3},
      {"capped", small, heads, heads, true, 0.0, {}, 0, true, 0, false, 0.0, 0.8},
      {"capped_grouped_dropout", small, grouped, kv_heads, true, 0.25, {}, 0, true, 3, true, 0.7, 1.5},
      {"capped_whole", small, heads, heads, false, 0.0, {}, 0, true, 0, false, 1.0, 2.0},
      {"large_capped", large, heads, heads, true, 0.0, {}, 0, false, 40, true, 0.2, 1.1},
      {"tiled_capped_dropout", tiled, grouped, kv_heads, true, 0.1, {}, 0, false, 0, false, 0.0, 0.9},
      {"narrow_capped", narrow, heads, heads, true, 0.0, {}, 0, false, 0, true, 0.4, 1.3},
      {"wide_capped", wide, grouped, kv_heads, false, 0.0, {}, 0, false, 0, false, 0.0, 1.2},
      {"widest_capped", widest, heads, heads, true, 0.0, {}, 0, false, 20, false, 0.1, 50.0},
      {"fully_masked_capped",
       even,
       heads,
       heads,
       true,
       0.2,
       {{"seq", shard(24, 2, 0)}, {"kv_seq", shard(24, 2, 1)}},
       0,
       false,
       0,
       false,
       0.0,
       0.8},
      {"partly_masked_capped",
       even,
       heads,
       heads,
       true,
       0.0,
       {{"seq", zigzag(0)}, {"kv_seq", zigzag(1)}},
       0,
       false,
       9,
       true,
       0.0,
       0.8},
      // A piece of keys that the window hides from all queries, and one that documents hide from some.
      {"masked_by_window",
       even,
       heads,
       heads,
       true,
       0.0,
       {{"seq", shard(24, 3, 2)}, {"kv_seq", shard(24, 3, 0)}},
       0,
       false,
       9},
      {"masked_by_documents",
       even,
       heads,
       heads,
       true,
       0.0,
       {{"seq", shard(24, 3, 2)}, {"kv_seq", shard(24, 3, 1)}},
       0,
       false,
       0,
       true},
  };
  const auto add_biased = [&](Variant variant, double scale) {
    variant.name = "bias_" + variant.name;
    variant.bias = true;
    variant.scale = scale;
    variants.push_back(std::move(variant));
  };
  add_biased({"causal", small, heads, heads, true, 0.0, {}, 0, true}, 1.0);
  add_biased({"whole_documents", small, heads, heads, false, 0.0, {}, 0, true, 0, true}, 0.7);
  add_biased({"grouped_dropout", small, grouped, kv_heads, true, 0.25, {}, 0, true}, 0.0);
  add_biased({"large_whole", large, heads, heads, false, 0.0}, 0.0);
  add_biased({"large_grouped_dropout", large, grouped, kv_heads, true, 0.1}, 0.0);
  add_biased({"zigzag", even, heads, heads, true, 0.0, {{"seq", zigzag(1)}}}, 0.0);
  add_biased({"zigzag_whole_dropout", even, heads, heads, false, 0.2, {{"seq", zigzag(0)}, {"kv_seq", zigzag(1)}}},
             0.0);
  add_biased({"sharded_heads", even, heads, heads, false, 0.0, {{"heads", shard(4, 2, 1)}}}, 0.0);
  add_biased({"tiled_zigzag_piece_documents",
              shared_tiles,
              heads,
              heads,
              true,
              0.1,
              {{"seq", tiled_zigzag(2, 1)}, {"kv_seq", tiled_zigzag(2, 0)}},
              0,
              false,
              100,
              true},
             0.0);
  add_biased({"narrow_whole", narrow, heads, heads, false, 0.0}, 1.0);
  add_biased({"wide_grouped", wide, grouped, kv_heads, true, 0.0}, 0.0);
  add_biased({"widest_dropout", widest, heads, heads, true, 0.1}, 0.0);
  // Several samples, tiles and heads, whole tiles and ragged ones, and tiles with a gap between positions.
  const DimSizes samples = {{"batch", 3}, {"seq", 149}, {"heads", 2}, {"kv_heads", 1}, {"group", 2}, {"head_dim", 24}};
  add_biased({"samples_whole", samples, heads, heads, false, 0.0}, 0.0);
  add_biased({"samples_window_documents", samples, grouped, kv_heads, true, 0.0, {}, 0, false, 70, true}, 0.0);
  add_biased({"tiled_whole", tiled, heads, heads, false, 0.0}, 0.0);
  add_biased({"tiled_causal", tiled, heads, heads, true, 0.0}, 0.0);
  add_biased({"tiled_zigzag_whole",
              shared_tiles,
              heads,
              heads,
              false,
              0.0,
              {{"seq", tiled_zigzag(2, 1)}, {"kv_seq", tiled_zigzag(2, 0)}}},
             0.0);
  add_biased({"wide_whole", wide, heads, heads, false, 0.0}, 0.0);
  std::vector<OpCase> cases;
  for (const Variant& variant : variants) {
    cases.push_back(forward_case(variant));
    cases.push_back(gradient_case(variant));
    if (variant.causal || !variant.shards.empty()) continue;
    cases.push_back(across(forward_case(variant)));
    cases.push_back(across(gradient_case(variant)));
  }
  // The results that a ring sums over hops are f32 even if the operands are shorter. Matrix units for bf16 round the
  // probabilities to bf16.
  const Variant piece{"piece", even, heads, heads, true, 0.2, {{"seq", zigzag(0)}, {"kv_seq", zigzag(1)}}};
  Variant masked = piece;
  masked.name += "_window_documents";
  masked.window = 9;
  masked.documents = true;
  // Windows around the sizes of tiles and of the sequence.
  for (const std::int64_t window : {1, 32, 63, 64, 65, 159, 160, 4096}) {
    Variant edge{"tiled_window_of_" + std::to_string(window), tiled, heads, heads};
    edge.window = window;
    cases.push_back(forward_case(edge));
    // A softmax over one key is 1: the gradients of queries and keys are rounding alone.
    if (window > 1) cases.push_back(gradient_case(edge));
  }
  for (const Variant& variant : variants) {
    if (!variant.documents || !variant.name.starts_with("tiled")) continue;
    for (OpCase op_case : {forward_case(variant), gradient_case(variant)}) {
      op_case.name += "_scattered";
      for (CaseOperand& operand : op_case.operands) {
        if (operand.fill == Fill::documents) operand.fill = Fill::scattered_documents;
      }
      cases.push_back(std::move(op_case));
    }
  }
  for (OpCase op_case : {forward_case(piece), gradient_case(piece), forward_case(masked), gradient_case(masked)}) {
    op_case.name += "_in_f32";
    op_case.attributes.set("dtype", std::string("f32"));
    op_case.tolerance = 0x1p-8;
    cases.push_back(std::move(op_case));
  }
  for (const Variant& variant : {Variant{"heads", small, heads, heads}, Variant{"grouped", large, grouped, kv_heads}}) {
    cases.push_back(merge_case(variant));
    OpCase in_place = merge_case(variant);
    in_place.name += "_in_place";
    in_place.in_place = 0;
    cases.push_back(std::move(in_place));
  }
  return cases;
}

}  // namespace strata::testing

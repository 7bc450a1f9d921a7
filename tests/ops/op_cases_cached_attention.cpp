#include "ops/op_case_variants.hpp"

/// \file
/// Attention of new positions to cached keys and values. It has no gradient, because only generation uses it.

namespace strata::testing {
namespace {

struct CachedVariant {
  std::string name;
  DimSizes sizes;
  Dims query_heads = {"heads"};
  Dims key_heads = {"heads"};
  std::int64_t window = 0;
  std::map<Dim, IndexMap, std::less<>> shards = {};
  Attributes scores = {};
  /// Elements of a head of the bias. 0: there is none.
  std::int64_t distances = 0;
};

OpCase cached_case(const CachedVariant& variant) {
  const auto dims = [](const Dim& sequence, const Dims& heads) {
    Dims all = {"batch", sequence};
    all.insert(all.end(), heads.begin(), heads.end());
    all.emplace_back("head_dim");
    return all;
  };
  const CaseOperand query{dims("seq", variant.query_heads)};
  const CaseOperand key{dims("seq", variant.key_heads)};
  const CaseOperand cache{dims(kCacheDim, variant.key_heads)};
  Attributes attributes = variant.scores;
  attributes.set("window", variant.window);
  std::vector<CaseOperand> operands = {query, key, key, {{"batch", "seq"}, Fill::cache_positions, DType::i32}};
  DimSizes sizes = variant.sizes;
  if (variant.distances > 0) {
    Dims bias = variant.query_heads;
    bias.emplace_back("distance");
    sizes["distance"] = variant.distances;
    operands.push_back({bias});
  }
  return {.name = "cached_attention_" + variant.name,
          .op = "cached_attention",
          .sizes = sizes,
          .operands = operands,
          .attributes = attributes,
          .shards = variant.shards,
          .results = {query, cache, cache}};
}

DimSizes cached_sizes(std::int64_t batch, std::int64_t seq, std::int64_t capacity, std::int64_t head_dim) {
  return {{"batch", batch}, {"seq", seq}, {kCacheDim, capacity}, {"heads", 3},
          {"kv_heads", 2},  {"group", 2}, {"head_dim", head_dim}};
}

}  // namespace

std::vector<OpCase> cached_attention_cases() {
  const Dims grouped = {"kv_heads", "group"};
  const Dims kv_heads = {"kv_heads"};
  const DimSizes token = cached_sizes(4, 1, 19, 5);
  const DimSizes few = cached_sizes(3, 5, 23, 16);
  const DimSizes many = cached_sizes(4, 40, 150, 64);
  std::vector<OpCase> cases;
  for (const CachedVariant& variant :
       std::vector<CachedVariant>{{"token", token},
                                  {"token_grouped", token, grouped, kv_heads},
                                  {"token_window", token, {"heads"}, {"heads"}, 4},
                                  {"token_long", cached_sizes(3, 1, 700, 64)},
                                  {"token_capped", token, grouped, kv_heads, 4, {}, {{"scale", 0.7}, {"cap", 1.5}}},
                                  {"token_bias", token, {"heads"}, {"heads"}, 0, {}, {{"scale", 1.0}}, 37},
                                  {"few_bias_grouped_window", few, grouped, kv_heads, 6, {}, {}, 53},
                                  {"many_bias", many, {"heads"}, {"heads"}, 0, {}, {}, 299},
                                  {"few", few},
                                  {"few_grouped_window", few, grouped, kv_heads, 6},
                                  {"few_sharded_heads", few, grouped, kv_heads, 0, {{"kv_heads", shard(2, 2, 1)}}},
                                  {"many", many},
                                  {"many_capped", many, grouped, kv_heads, 0, {}, {{"cap", 0.9}}},
                                  {"many_grouped_window", many, grouped, kv_heads, 33},
                                  {"many_narrow", cached_sizes(2, 17, 40, 20)}}) {
    cases.push_back(cached_case(variant));
  }
  return cases;
}

}  // namespace strata::testing

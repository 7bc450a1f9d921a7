#include "ops/op_case.hpp"

namespace strata::testing {
namespace {

/// A parameter, and whether the rank's piece of it is cut from a flat bucket with padding.
struct CompressedParameter {
  std::string name;
  DimSizes sizes;
  Dims dims;
  Dims rows;
  Dims columns;
  std::map<Dim, IndexMap, std::less<>> shards = {};
};

/// A factor is whole also if the parameter is sharded, so its dim has a name of its own.
CaseOperand full(const Dim& dim) { return {.dims = {dim}, .full = true}; }

void append_power_sgd(CompressedParameter parameter, std::int64_t rank, std::vector<OpCase>& cases) {
  parameter.sizes["left"] = rank * elements_of(parameter.sizes, parameter.rows);
  parameter.sizes["right"] = rank * elements_of(parameter.sizes, parameter.columns);
  const auto make = [&](const std::string& op, const std::vector<CaseOperand>& operands,
                        const std::vector<CaseOperand>& results) {
    OpCase op_case{.name = op + "_" + parameter.name + "_rank_" + std::to_string(rank),
                   .op = op,
                   .sizes = parameter.sizes,
                   .operands = operands,
                   .host_only = true};
    op_case.attributes = {{"rank", rank},
                          {"parameter", parameter.name},
                          {"dims", join(parameter.dims)},
                          {"rows", join(parameter.rows)},
                          {"columns", join(parameter.columns)}};
    op_case.shards = parameter.shards;
    op_case.results = results;
    // Sums over a side are longer than those that the default is for.
    op_case.tolerance = 4e-6;
    return op_case;
  };
  const CaseOperand piece = full("flat");
  cases.push_back(make("power_sgd_left", {piece, full("right")}, {full("left")}));
  cases.push_back(make("power_sgd_orthonormal", {full("left")}, {full("left")}));
  cases.push_back(make("power_sgd_right", {piece, full("left")}, {full("right")}));
  cases.push_back(make("power_sgd_product", {full("left"), full("right"), kScalar}, {{.dims = {"flat"}}}));
  cases.push_back(
      make("power_sgd_states", {piece, kScalar, full("left"), full("right"), full("right")}, {piece, full("right")}));
}

OpCase top_k(const std::string& op, std::int64_t size, std::int64_t chosen, const std::vector<CaseOperand>& operands,
             const std::vector<CaseOperand>& results) {
  return {.name = op + "_" + std::to_string(chosen) + "_of_" + std::to_string(size),
          .op = op,
          .sizes = {{"flat", size}, {"chosen", chosen}},
          .operands = operands,
          .results = results,
          .host_only = true};
}

}  // namespace

std::vector<OpCase> compress_cases() {
  std::vector<OpCase> cases;
  cases.push_back({.name = "add_pending_gradient",
                   .op = "add_pending_gradient",
                   .sizes = {{"flat", 6321}},
                   .operands = {{{"flat"}}, full("flat"), kScalar},
                   .results = {full("flat")},
                   .host_only = true});
  append_power_sgd({"projection",
                    {{"flat", 36 * 24 * 40}, {"embed", 36}, {"heads", 24}, {"head_dim", 40}},
                    {"embed", "heads", "head_dim"},
                    {"embed"},
                    {"heads", "head_dim"}},
                   4, cases);
  append_power_sgd(
      {"table", {{"flat", 300 * 60}, {"vocab", 300}, {"embed", 60}}, {"vocab", "embed"}, {"embed"}, {"vocab"}}, 3,
      cases);
  // Three heads of six, dealt to four ranks in pieces with padding. The second piece begins and the last ends in a row.
  for (const int index : {1, 3}) {
    append_power_sgd({index == 1 ? "piece_of_shard" : "last_piece_of_shard",
                      {{"flat", 220}, {"heads", 6}, {"head_dim", 8}, {"embed", 9}},
                      {"heads", "head_dim", "embed"},
                      {"heads", "head_dim"},
                      {"embed"},
                      {{"flat", shard(220, 4, index)}, {"heads", shard(6, 2, 1)}}},
                     2, cases);
  }
  const CaseOperand piece = full("flat");
  const CaseOperand indices{.dims = {"chosen"}, .dtype = DType::i32};
  for (const std::int64_t chosen : {std::int64_t{1}, std::int64_t{100}, std::int64_t{5000}}) {
    cases.push_back(top_k("top_k_select", 5000, chosen, {piece}, {indices, full("chosen")}));
  }
  CaseOperand places = indices;
  places.fill = Fill::places;
  cases.push_back(top_k("top_k_scatter", 5000, 300, {places, full("chosen"), kScalar}, {{.dims = {"flat"}}}));
  cases.push_back(top_k("top_k_states", 5000, 100, {piece, kScalar, places}, {piece}));
  return cases;
}

}  // namespace strata::testing

#include "ops/op_case.hpp"

namespace strata::testing {
namespace {

const CaseOperand kPositiveScalar{{}, Fill::positive, DType::f64};

/// A parameter, whether the rank's piece of it is cut from a flat bucket with padding, and the dims of its two sides.
struct FactoredParameter {
  std::string name;
  DimSizes sizes;
  Dims dims;
  Dims rows;
  Dims columns;
  std::map<Dim, IndexMap, std::less<>> shards = {};
};

/// A state. It is whole also if the parameter is sharded, so its dim has a name of its own.
CaseOperand moment(const Dim& dim) { return {.dims = {dim}, .fill = Fill::positive, .full = true}; }

OpCase factored(const std::string& op, const FactoredParameter& parameter, const Attributes& attributes) {
  OpCase op_case{.name = op + "_" + parameter.name,
                 .op = op,
                 .sizes = parameter.sizes,
                 .operands = {{{"flat"}}, kPositiveScalar},
                 .host_only = true};
  op_case.attributes = attributes;
  op_case.attributes.set("dims", join(parameter.dims));
  op_case.attributes.set("rows", join(parameter.rows));
  op_case.attributes.set("columns", join(parameter.columns));
  op_case.shards = parameter.shards;
  return op_case;
}

void append_cases_of(FactoredParameter parameter, std::vector<OpCase>& cases) {
  parameter.sizes["row_means"] = elements_of(parameter.sizes, parameter.rows);
  parameter.sizes["column_means"] = elements_of(parameter.sizes, parameter.columns);
  parameter.sizes["sums"] = parameter.sizes["row_means"] + parameter.sizes["column_means"];
  const std::vector<CaseOperand> means{moment("row_means"), moment("column_means")};
  const CaseOperand sums{{"sums"}, Fill::positive, DType::f64};
  OpCase squares = factored("factored_sums", parameter, {{"epsilon", 1e-3}});
  squares.results = {sums};
  OpCase clipped = squares;
  clipped.name += "_clipped";
  clipped.attributes.set("clip_value", 0.25);
  OpCase moments = factored("factored_moments", parameter, {{"decay", 0.8}});
  moments.operands[0] = sums;
  moments.results = means;
  OpCase norm = factored("factored_norm", parameter, {});
  norm.operands.insert(norm.operands.end(), means.begin(), means.end());
  norm.results = {kPositiveScalar};
  OpCase update = factored("factored_update", parameter,
                           {{"clip", 0.5},
                            {"smallest", 1e-3},
                            {"lr_factor", 0.5},
                            {"weight_decay", 0.1},
                            {"decay_elements", elements_of(parameter.sizes, {"flat"})}});
  update.operands.insert(update.operands.end(), means.begin(), means.end());
  update.operands.insert(update.operands.end(), {kPositiveScalar, kPositiveScalar});
  update.results = {{.dims = {"flat"}, .full = true}};
  OpCase absolute = update;
  absolute.name += "_absolute";
  absolute.attributes.set("smallest", 0.0);
  OpCase with_master = update;
  with_master.name += "_master_of_bf16";
  with_master.results.insert(with_master.results.begin(), {.dims = {"flat"}, .dtype = DType::bf16});
  for (OpCase* each : {&squares, &clipped, &moments, &norm, &update, &absolute, &with_master}) {
    // The padding of a piece is no value of a parameter.
    if (each == &with_master && parameter.shards.contains("flat")) continue;
    cases.push_back(std::move(*each));
  }
}

}  // namespace

std::vector<OpCase> adafactor_cases() {
  std::vector<OpCase> cases;
  append_cases_of({"projection",
                   {{"flat", 36 * 24 * 40}, {"embed", 36}, {"heads", 24}, {"head_dim", 40}},
                   {"embed", "heads", "head_dim"},
                   {"embed"},
                   {"heads", "head_dim"}},
                  cases);
  append_cases_of(
      {"table", {{"flat", 300 * 60}, {"vocab", 300}, {"embed", 60}}, {"vocab", "embed"}, {"embed"}, {"vocab"}}, cases);
  append_cases_of({"vector", {{"flat", 77}, {"embed", 77}}, {"embed"}, {"embed"}, {}}, cases);
  // Three heads of six, dealt to four ranks in pieces with padding. The second piece begins and the last ends in a row.
  append_cases_of({"piece_of_shard",
                   {{"flat", 220}, {"heads", 6}, {"head_dim", 8}, {"embed", 9}},
                   {"heads", "head_dim", "embed"},
                   {"heads", "head_dim"},
                   {"embed"},
                   {{"flat", shard(220, 4, 1)}, {"heads", shard(6, 2, 1)}}},
                  cases);
  append_cases_of({"last_piece_of_shard",
                   {{"flat", 220}, {"heads", 6}, {"head_dim", 8}, {"embed", 9}},
                   {"heads", "head_dim", "embed"},
                   {"heads", "head_dim"},
                   {"embed"},
                   {{"flat", shard(220, 4, 3)}, {"heads", shard(6, 2, 1)}}},
                  cases);
  return cases;
}

}  // namespace strata::testing

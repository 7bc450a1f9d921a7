#include <utility>

#include "ops/op_case_variants.hpp"

namespace strata::testing {
namespace {

OpCase linear(const std::string& name, const Dims& x, const Dims& w, const std::string& result) {
  return {.name = "linear_" + name,
          .op = "linear",
          .sizes = kSizes,
          .operands = {{x}, {w}},
          .attributes = {{"result", result}},
          .differentiable = true};
}

std::vector<OpCase> plain_linear_cases() {
  const OpCase forward = linear("forward", kActivation, {"embed", "ffn"}, "batch seq ffn");
  const OpCase input_gradient = linear("input_gradient", {"batch", "seq", "ffn"}, {"embed", "ffn"}, "batch seq embed");
  const OpCase weight_gradient = linear("weight_gradient", kActivation, {"batch", "seq", "ffn"}, "embed ffn");
  const OpCase tied = linear("tied_head", kActivation, {"vocab", "embed"}, "batch seq vocab");
  std::vector<OpCase> cases = {
      forward,
      input_gradient,
      weight_gradient,
      tied,
      with_accumulate(forward),
      with_accumulate(weight_gradient),
      with_sizes(forward, kLargeSizes, "_large"),
      with_sizes(input_gradient, kLargeSizes, "_large"),
      with_accumulate(with_sizes(weight_gradient, kLargeSizes, "_large")),
      with_sizes(tied, kLargeSizes, "_large"),
      linear("to_heads", kActivation, {"embed", "heads", "head_dim"}, "batch seq heads head_dim"),
      linear("from_heads", {"batch", "seq", "heads", "head_dim"}, {"heads", "head_dim", "embed"}, "batch seq embed"),
      linear("weight_first", {"embed", "ffn"}, kActivation, "batch seq ffn"),
      linear("contracted_in_other_order", {"batch", "seq", "heads", "head_dim"}, {"head_dim", "heads", "embed"},
             "batch seq embed"),
      linear("result_transposed", kActivation, {"embed", "ffn"}, "ffn batch seq"),
      linear("result_interleaved", kActivation, {"embed", "ffn"}, "batch ffn seq"),
      linear("result_permuted", kActivation, {"embed", "ffn"}, "seq batch ffn"),
      linear("batched", {"expert", "batch", "embed"}, {"expert", "embed", "ffn"}, "expert batch ffn"),
      linear("batched_inside", {"batch", "expert", "embed"}, {"expert", "embed", "ffn"}, "batch expert ffn"),
      linear("batched_last", {"batch", "embed", "expert"}, {"embed", "ffn", "expert"}, "batch ffn expert"),
      linear("matrix_times_vector", kActivation, {"embed"}, "batch seq"),
      linear("vector_times_matrix", {"embed"}, {"embed", "ffn"}, "ffn"),
      linear("outer_product", {"seq"}, {"embed"}, "seq embed"),
      linear("elementwise_product", kActivation, kActivation, "batch seq embed"),
      linear("scaled_rows", kActivation, {"seq"}, "batch seq embed"),
      {.name = "linear_dot_product",
       .op = "linear",
       .sizes = kSizes,
       .operands = {{{"embed"}}, {{"embed"}}},
       .attributes = {{"result", std::string()}}},
  };
  const OpCase batched =
      linear("batched_inside", {"batch", "expert", "embed"}, {"expert", "embed", "ffn"}, "batch expert ffn");
  for (const OpCase& each : {weight_gradient, with_sizes(weight_gradient, kLargeSizes, "_large"), batched}) {
    append(cases, {with_f32_result(each), with_accumulate(with_f32_result(each))});
  }
  const std::vector<OpCase> base = cases;
  for (const OpCase& each : base) {
    if (each.sizes == kSizes && !each.accumulate) cases.push_back(with_sizes(each, kEvenSizes, "_even"));
  }
  append(cases, {with_shard(with_sizes(forward, kEvenSizes, ""), "ffn", shard(72, 2, 1), "_sharded"),
                 with_shard(with_sizes(weight_gradient, kEvenSizes, ""), "batch", shard(2, 2, 1), "_sharded")});
  return cases;
}

OpCase linear_bias(OpCase op_case, const Dims& bias) {
  op_case.name.replace(0, 6, "linear_bias");
  op_case.op = "linear_bias";
  op_case.operands.push_back({bias});
  return op_case;
}

std::vector<OpCase> linear_bias_cases() {
  const Dims head_dims = {"batch", "seq", "heads", "head_dim"};
  const OpCase forward = linear_bias(linear("forward", kActivation, {"embed", "ffn"}, "batch seq ffn"), {"ffn"});
  const OpCase tied = linear_bias(linear("tied", kActivation, {"vocab", "embed"}, "batch seq vocab"), {"vocab"});
  const OpCase to_heads = linear("to_heads", kActivation, {"embed", "heads", "head_dim"}, "batch seq heads head_dim");
  const OpCase part = linear_bias(to_heads, {"head_dim"});
  OpCase whole = linear_bias(to_heads, {"heads", "head_dim"});
  whole.name += "_whole_bias";
  return {forward,
          with_accumulate(forward),
          with_sizes(forward, kLargeSizes, "_large"),
          with_accumulate(with_sizes(forward, kLargeSizes, "_large")),
          with_sizes(forward, kEvenSizes, "_even"),
          with_sizes(part, kEvenSizes, "_even"),
          tied,
          with_sizes(tied, kLargeSizes, "_large"),
          part,
          with_accumulate(part),
          whole,
          linear_bias(linear("from_heads", head_dims, {"heads", "head_dim", "embed"}, "batch seq embed"), {"embed"}),
          linear_bias(linear("result_transposed", kActivation, {"embed", "ffn"}, "ffn batch seq"), {"seq"}),
          linear_bias(linear("result_permuted", kActivation, {"embed", "ffn"}, "seq batch ffn"), {"ffn"}),
          linear_bias(linear("square", {"seq", "embed"}, {"embed", "ffn"}, "ffn seq"), {"seq"}),
          linear_bias(linear("batched", {"expert", "batch", "embed"}, {"expert", "embed", "ffn"}, "expert batch ffn"),
                      {"ffn"})};
}

/// Converts a case to the fused form `op`, which replaces `prefix` in the case's name.
OpCase with_gelu(OpCase op_case, const std::string& prefix, const std::string& op) {
  op_case.name.replace(0, prefix.size(), op);
  op_case.op = op;
  op_case.attributes.set("kind", std::string("gelu_tanh"));
  op_case.differentiable = false;
  op_case.optional = true;
  return op_case;
}

std::vector<OpCase> linear_bias_activation_cases() {
  const OpCase up = linear_bias(linear("forward", kActivation, {"embed", "ffn"}, "batch seq ffn"), {"ffn"});
  const OpCase tied = linear_bias(linear("tied", kActivation, {"vocab", "embed"}, "batch seq vocab"), {"vocab"});
  const OpCase to_heads = linear("to_heads", kActivation, {"embed", "heads", "head_dim"}, "batch seq heads head_dim");
  std::vector<OpCase> cases;
  for (const OpCase& each :
       {up, with_sizes(up, kEvenSizes, "_even"), with_sizes(up, kLargeSizes, "_large"), tied,
        with_sizes(tied, kEvenSizes, "_even"), linear_bias(to_heads, {"head_dim"}),
        with_shard(with_sizes(up, kEvenSizes, ""), "ffn", shard(72, 3, 1), "_sharded"),
        linear_bias(linear("result_transposed", kActivation, {"embed", "ffn"}, "ffn batch seq"), {"seq"})}) {
    const OpCase alone = with_gelu(each, "linear_bias", "linear_bias_activation");
    OpCase saving = alone;
    saving.name += "_saving_its_input";
    saving.attributes.set("saves_input", true);
    append(cases, {alone, saving});
  }
  return cases;
}

std::vector<OpCase> linear_activation_gradient_cases() {
  const Dims wide = {"batch", "seq", "ffn"};
  const OpCase down = linear("down", kActivation, {"ffn", "embed"}, "batch seq ffn");
  const OpCase transposed = linear("down_transposed", kActivation, {"embed", "ffn"}, "batch seq ffn");
  const OpCase interleaved = linear("interleaved", kActivation, {"embed", "ffn"}, "batch ffn seq");
  const OpCase batched =
      linear("batched", {"expert", "batch", "embed"}, {"expert", "embed", "ffn"}, "expert batch ffn");
  std::vector<OpCase> cases;
  for (const auto& [each, u] :
       {std::pair(down, wide), std::pair(transposed, wide), std::pair(interleaved, Dims{"batch", "ffn", "seq"}),
        std::pair(batched, Dims{"expert", "batch", "ffn"})}) {
    OpCase gradient = with_gelu(each, "linear", "linear_activation_gradient");
    gradient.operands.push_back({u});
    append(cases, {gradient, with_sizes(gradient, kEvenSizes, "_even")});
  }
  append(cases, {with_sizes(cases[0], kLargeSizes, "_large"),
                 with_shard(with_sizes(cases[0], kEvenSizes, ""), "ffn", shard(72, 3, 1), "_sharded")});
  return cases;
}

/// Products of few rows, as those of single tokens are.
std::vector<OpCase> few_row_cases() {
  const OpCase forward = linear("few_rows", kActivation, {"embed", "ffn"}, "batch seq ffn");
  const OpCase tied = linear("few_rows_transposed", kActivation, {"vocab", "embed"}, "batch seq vocab");
  DimSizes one = kLargeSizes;
  one["batch"] = 1;
  one["seq"] = 1;
  DimSizes several = kLargeSizes;
  several["batch"] = 5;
  several["seq"] = 1;
  DimSizes many_columns = several;
  many_columns["ffn"] = 2085;
  std::vector<OpCase> cases;
  for (OpCase each : {forward, linear_bias(forward, {"ffn"}), tied, linear_bias(tied, {"vocab"})}) {
    each.differentiable = false;
    append(cases,
           {with_sizes(each, one, "_one"), with_sizes(each, several, "_several"),
            with_accumulate(with_sizes(each, several, "_several")), with_sizes(each, many_columns, "_many_columns")});
  }
  return cases;
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases = plain_linear_cases();
  append(cases, few_row_cases());
  append(cases, linear_bias_cases());
  append(cases, linear_bias_activation_cases());
  append(cases, linear_activation_gradient_cases());
  return cases;
}

}  // namespace strata::testing

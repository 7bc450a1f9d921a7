#include "ops/op_case_variants.hpp"

/// \file
/// Ops of mixtures of experts: the choice of experts, and their feed-forward blocks.

namespace strata::testing {
namespace {

const Dims kScores = {"batch", "seq", "expert"};

/// With more experts than one warp has threads.
DimSizes many_experts() {
  DimSizes sizes = kLargeSizes;
  sizes["expert"] = 45;
  return sizes;
}

OpCase experts(const std::string& name, Fill gates) {
  const Dims wide = {"expert", "ffn", "embed"};
  return {.name = "experts" + name,
          .op = "experts",
          .sizes = kSizes,
          .operands = {{kActivation}, {kScores, gates}, {wide}, {wide}, {{"expert", "embed", "ffn"}}},
          .attributes = {{"kind", std::string("silu")}, {"choices", std::int64_t{8}}},
          .inner_roundings = 1};
}

OpCase gradient_of(OpCase op_case, const std::string& of) {
  op_case.name += of;
  op_case.op += of;
  op_case.inner_roundings *= 2;
  op_case.operands.insert(op_case.operands.begin(), {kActivation});
  op_case.differentiable = false;
  return op_case;
}

OpCase top_k(const std::string& name, std::int64_t k, bool normalize, Fill scores) {
  // Few rows, because a gradient jumps where two scores are equal.
  return {.name = "top_k" + name,
          .op = "top_k",
          .sizes = kSizes,
          .operands = {{kScores, scores}},
          .attributes = {{"k", k}, {"normalize", normalize}},
          .differentiable = scores != Fill::count};
}

/// Rows of matrices are whole vectors. `many`: sizes of a large row.
std::vector<OpCase> even_experts_cases(DimSizes many) {
  many["embed"] = 136;
  many["ffn"] = 136;
  // Most experts have no tokens.
  DimSizes few = {{"batch", 1}, {"seq", 3}, {"embed", 16}, {"ffn", 40}, {"expert", 45}};
  // Many choices, for devices that compute them in rounds.
  DimSizes rounds = {{"batch", 7}, {"seq", 37}, {"embed", 8}, {"ffn", 16}, {"expert", 128}};
  OpCase large = with_sizes(experts("_even", Fill::sparse), many, "_large");
  OpCase in_rounds = with_sizes(experts("_even", Fill::sparse), rounds, "_rounds");
  for (OpCase* each : {&large, &in_rounds}) each->tolerance = 2e-6;
  in_rounds.attributes.set("choices", rounds["expert"]);
  OpCase gelu = with_sizes(experts("_even_gelu", Fill::sparse), kEvenSizes, "");
  gelu.attributes.set("kind", std::string("gelu_tanh"));
  std::vector<OpCase> cases;
  OpCase mostly_unchosen = with_sizes(experts("_even", Fill::sparse), few, "_few");
  mostly_unchosen.attributes.set("choices", few["expert"]);
  for (const OpCase& each : {gelu, mostly_unchosen, large, in_rounds}) {
    append(cases, {each, gradient_of(each, "_input_gradient"), gradient_of(each, "_weight_gradient")});
  }
  append(cases, {with_accumulate(large), with_accumulate(gradient_of(gelu, "_input_gradient")),
                 with_accumulate(gradient_of(in_rounds, "_weight_gradient")),
                 with_f32_result(gradient_of(in_rounds, "_weight_gradient")),
                 with_accumulate(with_f32_result(gradient_of(gelu, "_weight_gradient")))});
  return cases;
}

}  // namespace

std::vector<OpCase> routing_cases() {
  const OpCase softmax{
      .name = "softmax", .op = "softmax", .sizes = kSizes, .operands = {{kScores}}, .differentiable = true};
  OpCase softmax_gradient = softmax;
  softmax_gradient.name = softmax_gradient.op = "softmax_gradient";
  softmax_gradient.operands = {full(kScores), full(kScores, Fill::positive)};
  softmax_gradient.differentiable = false;
  OpCase biased = top_k("_biased", 2, true, Fill::positive);
  biased.operands.push_back({.dims = {"expert"}, .trained = false});
  std::vector<OpCase> cases = {softmax,
                               with_sizes(softmax, many_experts(), "_large"),
                               softmax_gradient,
                               with_accumulate(softmax_gradient),
                               with_in_place(softmax_gradient, 0),
                               with_in_place(softmax_gradient, 1),
                               with_sizes(softmax_gradient, many_experts(), "_large")};
  for (const OpCase& each : {top_k("", 2, false, Fill::positive), top_k("_normalized", 2, true, Fill::positive),
                             top_k("_of_equals", 2, true, Fill::count), biased,
                             with_sizes(top_k("", 8, true, Fill::positive), many_experts(), "_large")}) {
    append(cases, {each, gradient_of(each, "_gradient")});
    cases.back().operands.front() = {kScores};
  }
  const OpCase balance{
      .name = "balance_loss",
      .op = "balance_loss",
      .sizes = kSizes,
      .operands = {{kScores, Fill::positive}, {.dims = kScores, .fill = Fill::sparse, .trained = false}},
      .attributes = {{"weight", 0.3}},
      .differentiable = true};
  const OpCase z{.name = "z_loss",
                 .op = "z_loss",
                 .sizes = kSizes,
                 .operands = {{kScores}},
                 .attributes = {{"weight", 0.3}},
                 .differentiable = true};
  const auto with_targets = [](OpCase of) {
    of.name += "_of_targets";
    of.operands.push_back({{"batch", "seq"}, Fill::targets, DType::i32});
    return of;
  };
  for (const OpCase& each : {balance, z, with_targets(balance), with_targets(z)}) {
    OpCase gradient = each;
    gradient.name += "_gradient";
    gradient.op += "_gradient";
    gradient.differentiable = false;
    append(cases, {each, with_sizes(each, many_experts(), "_large"), gradient, with_accumulate(gradient),
                   with_sizes(gradient, many_experts(), "_large")});
  }
  const OpCase load{
      .name = "count_choices", .op = "count_choices", .sizes = kSizes, .operands = {{kScores, Fill::sparse}}};
  append(cases,
         {load, with_sizes(load, many_experts(), "_large"), with_targets(load), with_accumulate(with_targets(load))});
  OpCase deficit = load;
  deficit.name = deficit.op = "load_deficit";
  deficit.attributes = {{"k", std::int64_t{2}}};
  append(cases, {deficit, with_sizes(deficit, many_experts(), "_large"), with_accumulate(deficit)});
  return cases;
}

std::vector<OpCase> experts_cases() {
  OpCase forward = experts("", Fill::positive);
  forward.differentiable = true;
  // Large enough for several chunks of an expert's tokens. All tokens choose the first of seven experts.
  DimSizes many = kSizes;
  many["expert"] = 7;
  many["batch"] = 5;
  many["seq"] = 53;
  OpCase large = with_sizes(experts("_sparse", Fill::sparse), many, "_large");
  large.tolerance = 2e-6;
  std::vector<OpCase> cases = {forward};
  for (const OpCase& each :
       {with_accumulate(experts("_dense", Fill::positive)), experts("_sparse", Fill::sparse), large}) {
    append(cases, {each, gradient_of(each, "_input_gradient"), gradient_of(each, "_weight_gradient")});
  }
  append(cases, {with_f32_result(gradient_of(experts("_sparse", Fill::sparse), "_weight_gradient")),
                 with_accumulate(with_f32_result(gradient_of(large, "_weight_gradient")))});
  append(cases, even_experts_cases(many));
  return cases;
}

}  // namespace strata::testing

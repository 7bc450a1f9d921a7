#include "ops/op_case_variants.hpp"
#include "strata/activation.hpp"

/// \file
/// Ops of the Llama family: root-mean-square norms, gated activations, rotary positions, soft caps.

namespace strata::testing {

std::vector<OpCase> rms_norm_cases() {
  const Dims rows = {"batch", "seq"};
  const OpCase forward{.name = "rms_norm",
                       .op = "rms_norm",
                       .sizes = kSizes,
                       .operands = {{kActivation}, full({"embed"}, Fill::positive)},
                       .attributes = {{"epsilon", 1e-5}},
                       .differentiable = true};
  const OpCase input{
      .name = "rms_norm_input_gradient",
      .op = "rms_norm_input_gradient",
      .sizes = kSizes,
      .operands = {{kActivation}, {kActivation}, full({"embed"}, Fill::positive), full(rows, Fill::positive)}};
  const OpCase parameter{.name = "rms_norm_parameter_gradient",
                         .op = "rms_norm_parameter_gradient",
                         .sizes = kSizes,
                         .operands = {{kActivation}, {kActivation}, full(rows, Fill::positive)}};
  std::vector<OpCase> cases = {with_in_place(input, 0), with_accumulate(input), with_accumulate(parameter),
                               with_accumulate(with_sizes(parameter, kLargeSizes, "_large"))};
  // A norm of every head, as of queries and keys.
  OpCase of_heads = forward;
  of_heads.name = "rms_norm_of_heads";
  of_heads.operands = {{{"batch", "seq", "heads", "head_dim"}}, full({"head_dim"}, Fill::positive)};
  cases.push_back(of_heads);
  // One norm of all heads, whose parameters have two dims.
  const CaseOperand heads{{"batch", "seq", "heads", "head_dim"}};
  const CaseOperand gain = full({"heads", "head_dim"}, Fill::positive);
  for (OpCase each : {forward, input, parameter}) {
    each.name += "_of_all_heads";
    for (CaseOperand& operand : each.operands) {
      if (operand.dims == kActivation) operand = heads;
      if (operand.dims == Dims{"embed"}) operand = gain;
    }
    cases.push_back(std::move(each));
  }
  DimSizes wide = kSizes;
  wide["seq"] = 2;
  wide["embed"] = 2600;
  DimSizes odd_wide = wide;
  odd_wide["embed"] = 2051;
  DimSizes widest = wide;
  widest["embed"] = 16640;
  for (const OpCase& each : {forward, input, parameter}) {
    append(cases, {each, with_sizes(each, kLargeSizes, "_large"), with_sizes(each, kEvenSizes, "_even"),
                   with_sizes(each, wide, "_wide"), with_sizes(each, odd_wide, "_odd_wide"),
                   with_sizes(each, widest, "_widest")});
  }
  return cases;
}

std::vector<OpCase> gate_cases() {
  const OpCase product{.name = "multiply",
                       .op = "multiply",
                       .sizes = kSizes,
                       .operands = {{kActivation}, {kActivation}},
                       .differentiable = true};
  std::vector<OpCase> cases = {product,
                               with_in_place(product, 0),
                               with_in_place(product, 1),
                               with_accumulate(product),
                               with_sizes(product, kLargeSizes, "_large"),
                               with_accumulate(with_sizes(product, kLargeSizes, "_large"))};
  for (const Dims& part : {Dims{"embed"}, Dims{"batch", "seq"}, Dims{"batch"}, Dims{}}) {
    OpCase repeated = product;
    repeated.name += "_by_" + (part.empty() ? std::string("scalar") : part.back());
    repeated.operands = {{kActivation}, {part}};
    cases.push_back(repeated);
    cases.push_back(with_sizes(repeated, kLargeSizes, "_large"));
  }
  OpCase scaled = product;
  scaled.name = "weighted_sum_of_activations";
  scaled.op = "weighted_sum";
  scaled.attributes = {{"factor0", 0.5}, {"factor1", -2.0}};
  scaled.results = {{kActivation}};
  cases.push_back(scaled);
  for (const ActivationFunction& function : activation_functions()) {
    const std::string kind(function.kind);
    const OpCase forward{.name = "gated_activation_" + kind,
                         .op = "gated_activation",
                         .sizes = kSizes,
                         .operands = {{kActivation}, {kActivation}},
                         .attributes = {{"kind", kind}},
                         .differentiable = true};
    OpCase gradient = forward;
    gradient.name = "gated_activation_gradient_" + kind;
    gradient.op = "gated_activation_gradient";
    gradient.operands.push_back({kActivation});
    gradient.differentiable = false;
    append(cases, {forward, gradient, with_in_place(forward, 0), with_in_place(forward, 1), with_in_place(gradient, 2),
                   with_accumulate(gradient), with_sizes(forward, kLargeSizes, "_large"),
                   with_sizes(gradient, kLargeSizes, "_large")});
  }
  return cases;
}

std::vector<OpCase> soft_cap_cases() {
  const OpCase forward{.name = "soft_cap",
                       .op = "soft_cap",
                       .sizes = kSizes,
                       .operands = {{kActivation}},
                       .attributes = {{"cap", 0.8}},
                       .differentiable = true};
  OpCase gradient = forward;
  gradient.name = "soft_cap_gradient";
  gradient.op = "soft_cap_gradient";
  gradient.operands.push_back({kActivation});
  gradient.attributes.set("cap", 8.0);  // above all values, which are results
  gradient.differentiable = false;
  // Nothing is bent: the cap must not cost digits.
  OpCase far = forward;
  far.name = "soft_cap_far";
  far.attributes.set("cap", 300.0);
  return {forward,
          gradient,
          far,
          with_in_place(forward, 0),
          with_in_place(gradient, 0),
          with_in_place(gradient, 1),
          with_accumulate(gradient),
          with_sizes(forward, kLargeSizes, "_large"),
          with_sizes(gradient, kLargeSizes, "_large")};
}

std::vector<OpCase> rope_cases() {
  const Dims table = {"context", "pair"};
  const auto with_pairs = [](DimSizes sizes) {
    sizes["head_dim"] += sizes["head_dim"] % 2;
    sizes["pair"] = sizes["head_dim"] / 2;
    sizes["context"] = 19;
    return sizes;
  };
  CaseOperand angle = full(table);
  angle.trained = false;
  const OpCase forward{
      .name = "rope",
      .op = "rope",
      .sizes = with_pairs(kSizes),
      .operands = {{{"batch", "seq", "heads", "head_dim"}}, angle, angle, {{"seq"}, Fill::positions, DType::i32}},
      .attributes = {{"inverse", false}},
      .differentiable = true};
  OpCase of_samples = forward;
  of_samples.name += "_positions_of_samples";
  of_samples.operands[3].dims = {"batch", "seq"};
  OpCase grouped = of_samples;
  grouped.name += "_grouped";
  grouped.operands[0].dims = {"batch", "seq", "kv_heads", "group", "head_dim"};
  OpCase inverse = forward;
  inverse.name += "_inverse";
  inverse.attributes.set("inverse", true);
  OpCase heads_first = forward;
  heads_first.name += "_heads_first";
  heads_first.operands[0].dims = {"batch", "heads", "seq", "head_dim"};
  const auto partial = [](OpCase each, const std::string& name, std::int64_t pairs) {
    each.name += name;
    each.sizes["pair"] = pairs;
    return each;
  };
  std::vector<OpCase> cases;
  for (const OpCase& each : {forward, of_samples, grouped, inverse, heads_first, partial(forward, "_partial", 1)}) {
    append(cases, {each, with_in_place(each, 0), with_accumulate(each)});
  }
  append(cases, {partial(with_sizes(forward, with_pairs(kEvenSizes), "_even"), "_partial", 4),
                 partial(with_sizes(inverse, with_pairs(kLargeSizes), "_large"), "_partial", 5)});
  for (const OpCase& each : {forward, inverse}) {
    append(cases,
           {with_sizes(each, with_pairs(kLargeSizes), "_large"), with_sizes(each, with_pairs(kEvenSizes), "_even")});
  }
  return cases;
}

}  // namespace strata::testing

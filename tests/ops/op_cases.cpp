#include "ops/op_case_variants.hpp"
#include "strata/activation.hpp"

namespace strata::testing {
namespace {

OpCase add(const std::string& name, const Dims& y) {
  return {
      .name = "add_" + name, .op = "add", .sizes = kSizes, .operands = {{kActivation}, {y}}, .differentiable = true};
}

OpCase normalize(const std::string& name, const Dims& squares) {
  return {.name = "normalize_" + name,
          .op = "normalize",
          .sizes = kSizes,
          .operands = {{kActivation}, {.dims = squares, .fill = Fill::positive, .full = true}},
          .attributes = {{"epsilon", 1e-3}}};
}

OpCase reduce_sum(const std::string& name, const std::string& result, Fill fill = Fill::normal) {
  return {.name = "reduce_sum_" + name,
          .op = "reduce_sum",
          .sizes = kSizes,
          .operands = {{kActivation, fill}},
          .attributes = {{"result", result}},
          .differentiable = !result.empty()};
}

OpCase repeat(const std::string& name, const Dims& dims) {
  return {.name = "repeat_" + name,
          .op = "repeat",
          .sizes = kSizes,
          .operands = {{.dims = dims, .full = true}},
          .attributes = {{"result", std::string("batch seq embed")}},
          .differentiable = true};
}

OpCase cast(const std::string& name, DType from, const std::string& to) {
  return {.name = "cast_" + name,
          .op = "cast",
          .sizes = kSizes,
          .operands = {{kActivation, Fill::normal, from}},
          .attributes = {{"dtype", to}}};
}

std::vector<OpCase> elementwise_cases() {
  OpCase same = cast("same", DType::f32, "f32");
  same.differentiable = true;  // in f64
  const OpCase dot{.name = "dot",
                   .op = "dot",
                   .sizes = kSizes,
                   .operands = {{kActivation}, {kActivation}},
                   .attributes = {{"weight", 0.3}},
                   .differentiable = true};
  const OpCase scale{.name = "scale_gradient", .op = "scale_gradient", .sizes = kSizes, .operands = {{kActivation}}};
  std::vector<OpCase> cases = {
      add("residual", kActivation),
      with_sizes(add("residual", kActivation), kLargeSizes, "_large"),
      add("bias", {"embed"}),
      with_sizes(add("bias", {"embed"}), kLargeSizes, "_large"),
      add("position_embedding", {"seq", "embed"}),
      add("over_the_middle", {"batch", "embed"}),
      add("over_the_end", {"batch", "seq"}),
      add("over_both_ends", {"seq"}),
      add("scalar", {}),
      with_accumulate(add("residual", kActivation)),
      {.name = "sum_of_one", .op = "sum", .sizes = kSizes, .operands = {{kActivation}}, .differentiable = true},
      {.name = "sum_of_three",
       .op = "sum",
       .sizes = kSizes,
       .operands = {{kActivation}, {kActivation}, {kActivation}},
       .differentiable = true},
      reduce_sum("bias", "embed"),
      with_accumulate(reduce_sum("bias", "embed")),
      with_accumulate(with_sizes(reduce_sum("bias", "embed"), kLargeSizes, "_large")),
      reduce_sum("positions", "seq embed"),
      reduce_sum("over_the_end", "batch seq"),
      reduce_sum("middle", "seq"),
      with_sizes(reduce_sum("all", "", Fill::positive), kLargeSizes, "_large"),
      reduce_sum("nothing", "batch seq embed"),
      same,
      cast("to_bf16", DType::f32, "bf16"),
      cast("from_bf16", DType::bf16, "f32"),
      cast("to_f16", DType::f32, "f16"),
      cast("from_f16", DType::f16, "f32"),
      cast("bf16_to_f16", DType::bf16, "f16"),
      with_f32_result(reduce_sum("bias", "embed")),
      with_accumulate(with_f32_result(reduce_sum("positions", "seq embed"))),
      scale,
      with_in_place(scale, 0),
      with_accumulate(scale),
      normalize("all", {}),
      with_in_place(normalize("all", {}), 0),
      with_sizes(normalize("all", {}), kLargeSizes, "_large"),
      normalize("over_the_end", {"batch", "seq"}),
      normalize("over_the_middle", {"batch", "embed"}),
  };
  const OpCase residual = cases[0];
  const OpCase bias = cases[2];
  const OpCase sum_of_three = cases[11];
  append(cases, {with_in_place(residual, 0), with_in_place(residual, 1), with_in_place(bias, 0),
                 with_in_place(sum_of_three, 0)});
  for (const OpCase& each :
       {repeat("all", {}), repeat("bias", {"embed"}), repeat("middle", {"seq"}),
        repeat("over_the_end", {"batch", "seq"}), repeat("over_the_middle", {"batch", "embed"}), dot}) {
    append(cases, {each, with_accumulate(each), with_sizes(each, kLargeSizes, "_large")});
  }
  const Dims heads = {"batch", "seq", "heads", "head_dim"};
  for (OpCase each :
       {add("to_every_other", {"batch", "heads"}), add("to_every_other_inside", {"seq", "head_dim"}),
        reduce_sum("to_every_other", "batch heads"), reduce_sum("to_every_other_inside", "seq head_dim")}) {
    each.operands[0].dims = heads;
    append(cases, {each, with_sizes(each, kLargeSizes, "_large")});
  }
  const std::vector<OpCase> base = cases;
  for (const OpCase& each : base) {
    const bool walks_rows = each.op == "add" || each.op == "reduce_sum";
    if (walks_rows && each.sizes == kSizes) cases.push_back(with_sizes(each, kEvenSizes, "_even"));
  }
  return cases;
}

std::vector<OpCase> activation_cases() {
  std::vector<OpCase> cases;
  for (const ActivationFunction& function : activation_functions()) {
    const std::string kind(function.kind);
    OpCase forward{.name = "activation_" + kind,
                   .op = "activation",
                   .sizes = kSizes,
                   .operands = {{kActivation}},
                   .attributes = {{"kind", kind}},
                   .differentiable = true};
    OpCase gradient = forward;
    gradient.name = "activation_gradient_" + kind;
    gradient.op = "activation_gradient";
    gradient.operands.push_back({kActivation});
    gradient.differentiable = false;
    append(cases, {forward, gradient, with_accumulate(gradient)});
    for (const OpCase& each : {with_in_place(forward, 0), with_in_place(gradient, 0), with_in_place(gradient, 1)}) {
      append(cases, {each, with_sizes(each, kLargeSizes, "_large")});
    }
  }
  return cases;
}

std::vector<OpCase> embedding_cases() {
  const OpCase forward{.name = "embedding",
                       .op = "embedding",
                       .sizes = kSizes,
                       .operands = {{{"vocab", "embed"}}, {{"batch", "seq"}, Fill::ids, DType::i32}},
                       .differentiable = true};
  const OpCase gradient{.name = "embedding_gradient",
                        .op = "embedding_gradient",
                        .sizes = kSizes,
                        .operands = {{kActivation}, {{"batch", "seq"}, Fill::ids, DType::i32}},
                        .attributes = {{"result", std::string("vocab embed")}}};
  DimSizes even = kLargeSizes;
  even["vocab"] = 24;
  // Each word is at many positions.
  DimSizes few_words = kLargeSizes;
  few_words["vocab"] = 3;
  std::vector<OpCase> cases;
  for (const OpCase& each :
       {forward, gradient, with_accumulate(gradient), with_accumulate(with_f32_result(gradient))}) {
    append(cases, {each, with_sizes(each, kLargeSizes, "_large"), with_sizes(each, kEvenSizes, "_even"),
                   with_sizes(each, few_words, "_few_words"),
                   with_shard(with_sizes(each, even, ""), "vocab", shard(24, 3, 1), "_sharded"),
                   with_shard(with_sizes(each, even, ""), "vocab", shard(24, 2, 1, Distribution::zigzag), "_zigzag")});
  }
  return cases;
}

std::vector<OpCase> layer_norm_cases() {
  const Dims rows = {"batch", "seq"};
  const OpCase forward{.name = "layer_norm",
                       .op = "layer_norm",
                       .sizes = kSizes,
                       .operands = {{kActivation}, full({"embed"}, Fill::positive), full({"embed"})},
                       .attributes = {{"epsilon", 1e-5}},
                       .differentiable = true};
  const OpCase input{
      .name = "layer_norm_input_gradient",
      .op = "layer_norm_input_gradient",
      .sizes = kSizes,
      .operands = {
          {kActivation}, {kActivation}, full({"embed"}, Fill::positive), full(rows), full(rows, Fill::positive)}};
  const OpCase parameter{.name = "layer_norm_parameter_gradient",
                         .op = "layer_norm_parameter_gradient",
                         .sizes = kSizes,
                         .operands = {{kActivation}, {kActivation}, full(rows), full(rows, Fill::positive)}};
  std::vector<OpCase> cases = {with_in_place(input, 0), with_accumulate(input), with_accumulate(parameter),
                               with_accumulate(with_sizes(parameter, kLargeSizes, "_large"))};
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

std::vector<OpCase> dropout_cases() {
  const OpCase plain{.name = "dropout",
                     .op = "dropout",
                     .sizes = kSizes,
                     .operands = {{kActivation}},
                     .attributes = {{"p", 0.3}},
                     .differentiable = true};
  DimSizes even = kLargeSizes;
  even["seq"] = 24;
  OpCase later = with_shard(with_sizes(plain, even, ""), "batch", shard(4, 2, 1), "_later_micro_batch");
  later.micro_batch = 3;
  OpCase both = with_shard(later, "seq", shard(24, 2, 1, Distribution::zigzag), "_zigzag");
  OpCase columns = with_shard(with_sizes(plain, {{"batch", 3}, {"seq", 5}, {"embed", 48}}, ""), "embed",
                              shard(48, 2, 1, Distribution::zigzag), "_sharded_columns");
  OpCase batch_inside = later;
  batch_inside.name += "_batch_inside";
  batch_inside.operands = {{{"seq", "batch", "embed"}}};
  OpCase one_dim = plain;
  one_dim.name += "_one_dim";
  one_dim.operands = {{{"embed"}}};
  OpCase even_pieces =
      with_shard(with_sizes(plain, kEvenSizes, "_even"), "seq", shard(24, 2, 1, Distribution::zigzag), "_zigzag");
  even_pieces = with_shard(even_pieces, "batch", shard(2, 2, 1), "_later_micro_batch");
  even_pieces.micro_batch = 3;
  OpCase even_columns = with_shard(with_sizes(plain, kEvenSizes, "_even"), "embed",
                                   shard(80, 5, 1, Distribution::block), "_sharded_columns");
  std::vector<OpCase> cases = {plain,  with_sizes(plain, kLargeSizes, "_large"), later, both, columns, batch_inside,
                               one_dim};
  append(cases, {even_pieces, even_columns, with_accumulate(even_columns)});
  for (OpCase each : {plain, both, batch_inside}) {
    append(cases, {with_in_place(each, 0), with_accumulate(each)});
    each.name.replace(0, 7, "dropout_add");
    each.op = "dropout_add";
    each.operands.push_back(each.operands[0]);
    append(cases, {each, with_in_place(each, 0), with_in_place(each, 1), with_accumulate(each)});
  }
  return cases;
}

std::vector<OpCase> cross_entropy_cases() {
  const Dims logits = {"batch", "seq", "vocab"};
  const Dims rows = {"batch", "seq"};
  const CaseOperand targets{rows, Fill::targets, DType::i32};
  const OpCase pick{.name = "pick", .op = "pick", .sizes = kSizes, .operands = {{logits}, targets}};
  const OpCase gradient{.name = "cross_entropy_gradient",
                        .op = "cross_entropy_gradient",
                        .sizes = kSizes,
                        .operands = {{logits}, full(rows, Fill::large), targets}};
  const OpCase row_max{.name = "row_max", .op = "row_max", .sizes = kSizes, .operands = {{logits}}};
  const OpCase exponentials{
      .name = "sum_exponentials", .op = "sum_exponentials", .sizes = kSizes, .operands = {{logits}, full(rows)}};
  const OpCase loss{.name = "cross_entropy_sum",
                    .op = "cross_entropy_sum",
                    .sizes = kSizes,
                    .operands = {full(rows, Fill::large), full(rows), targets}};
  const OpCase count{.name = "count_targets", .op = "count_targets", .sizes = kSizes, .operands = {targets}};
  // Of two classes, many rows are correct, and the logits 0 and 0 are equal.
  const OpCase correct{.name = "count_correct",
                       .op = "count_correct",
                       .sizes = kSizes,
                       .operands = {{{"batch", "seq", "group"}, Fill::sparse}, targets}};
  const OpCase correct_of_many{
      .name = "count_correct_of_many", .op = "count_correct", .sizes = kSizes, .operands = {{logits}, targets}};
  const OpCase log_sum{.name = "log_sum_exponential",
                       .op = "log_sum_exponential",
                       .sizes = kSizes,
                       .operands = {full(rows), full(rows, Fill::positive)}};

  DimSizes even = kLargeSizes;
  even["vocab"] = 48;
  std::vector<OpCase> cases = {{.name = "cross_entropy",
                                .op = "cross_entropy",
                                .sizes = kSizes,
                                .operands = {{logits}, targets},
                                .differentiable = true,
                                .on_devices = false},
                               log_sum,
                               with_in_place(log_sum, 0),
                               with_in_place(log_sum, 1),
                               with_in_place(gradient, 0),
                               loss,
                               with_accumulate(loss),
                               with_sizes(loss, kLargeSizes, "_large"),
                               count,
                               with_accumulate(count),
                               correct,
                               with_accumulate(correct),
                               correct_of_many,
                               with_sizes(correct_of_many, kLargeSizes, "_large"),
                               row_max,
                               with_sizes(row_max, kLargeSizes, "_large"),
                               with_sizes(row_max, kEvenSizes, "_even"),
                               with_sizes(exponentials, kEvenSizes, "_even"),
                               with_in_place(with_sizes(gradient, kLargeSizes, "_large"), 0),
                               exponentials,
                               with_sizes(exponentials, kLargeSizes, "_large")};
  const auto smoothed = [](OpCase op_case) {
    op_case.name += "_smoothed";
    op_case.attributes.set("label_smoothing", 0.1);
    return op_case;
  };
  cases.push_back(smoothed(cases.front()));
  for (const OpCase& each : {pick, gradient, smoothed(pick), smoothed(gradient)}) {
    append(cases, {each, with_sizes(each, kLargeSizes, "_large"), with_sizes(each, kEvenSizes, "_even"),
                   with_shard(with_sizes(each, even, ""), "vocab", shard(48, 3, 1), "_sharded"),
                   with_shard(with_sizes(each, even, ""), "vocab", shard(48, 2, 1, Distribution::zigzag), "_zigzag")});
  }
  return cases;
}

}  // namespace

const std::vector<OpCase>& all_op_cases() {
  static const std::vector<OpCase> kCases = [] {
    std::vector<OpCase> cases;
    append(cases, linear_cases());
    append(cases, elementwise_cases());
    append(cases, activation_cases());
    append(cases, embedding_cases());
    append(cases, layer_norm_cases());
    append(cases, dropout_cases());
    append(cases, attention_cases());
    append(cases, cross_entropy_cases());
    append(cases, program_op_cases());
    append(cases, quantization_cases());
    append(cases, weight_block_cases());
    append(cases, adafactor_cases());
    append(cases, compress_cases());
    append(cases, rms_norm_cases());
    append(cases, gate_cases());
    append(cases, rope_cases());
    append(cases, soft_cap_cases());
    append(cases, routing_cases());
    append(cases, experts_cases());
    append(cases, cached_attention_cases());
    append(cases, image_cases());
    return cases;
  }();
  return kCases;
}

}  // namespace strata::testing

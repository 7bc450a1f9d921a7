#include "ops/op_case.hpp"
#include "ops/op_case_variants.hpp"
#include "strata/internal/group_runs.hpp"

namespace strata::testing {
namespace {

const DimSizes kBucket = {{"flat", 10007}};
const Dims kFlat = {"flat"};

OpCase gradient_scale(const std::string& name, const Attributes& attributes) {
  return {.name = "gradient_scale_" + name,
          .op = "gradient_scale",
          .sizes = {},
          .operands = {kScalar, {{}, Fill::count, DType::f64}},
          .attributes = attributes,
          .results = {kScalar, kScalar},
          .tolerance = 1e-14};  // scalars in f64 on every device
}

CaseOperand state(Fill fill = Fill::normal) { return {.dims = kFlat, .fill = fill, .full = true}; }

OpCase adamw(const std::string& name, std::int64_t decay_elements) {
  return {.name = "adamw_" + name,
          .op = "adamw_update",
          .sizes = kBucket,
          .operands = {{kFlat}, kScalar},
          .attributes = {{"beta1", 0.9},
                         {"beta2", 0.95},
                         {"epsilon", 1e-8},
                         {"lr_factor", 0.5},
                         {"weight_decay", 0.1},
                         {"decay_elements", decay_elements}},
          .results = {state(), state(), state(Fill::positive)}};
}

OpCase sgd(const std::string& name, double momentum, std::int64_t decay_elements) {
  std::vector<CaseOperand> results = {state()};
  if (momentum > 0) results.push_back(state());
  return {.name = "sgd_" + name,
          .op = momentum > 0 ? "sgd_momentum_update" : "sgd_update",
          .sizes = kBucket,
          .operands = {{kFlat}, kScalar},
          .attributes = {{"momentum", momentum},
                         {"nesterov", false},
                         {"lr_factor", 0.5},
                         {"weight_decay", 0.1},
                         {"decay_elements", decay_elements}},
          .results = results};
}

OpCase nesterov(OpCase op_case) {
  op_case.name += "_nesterov";
  op_case.attributes.set("nesterov", true);
  return op_case;
}

OpCase lion(const std::string& name, std::int64_t decay_elements) {
  return {.name = "lion_" + name,
          .op = "lion_update",
          .sizes = kBucket,
          .operands = {{kFlat}, kScalar},
          .attributes = {{"beta1", 0.9},
                         {"beta2", 0.99},
                         {"lr_factor", 0.5},
                         {"weight_decay", 0.1},
                         {"decay_elements", decay_elements}},
          .results = {state(), state()}};
}

OpCase momentum_direction(bool nesterov) {
  return {.name = nesterov ? "momentum_direction_nesterov" : "momentum_direction",
          .op = "momentum_direction",
          .sizes = kBucket,
          .operands = {{kFlat}, kScalar},
          .attributes = {{"momentum", 0.9},
                         {"nesterov", nesterov},
                         {"weight_decay", 0.1},
                         {"decay_elements", std::int64_t{4321}}},
          .results = {state(), state()}};
}

OpCase scaled_gradient() {
  return {.name = "scaled_gradient",
          .op = "scaled_gradient",
          .sizes = kBucket,
          .operands = {{kFlat}, kScalar},
          .attributes = {{"weight_decay", 0.1}, {"decay_elements", std::int64_t{4321}}},
          .results = {state()}};
}

/// Three square matrices of 15 rows, or one of 45.
OpCase square_matrices(const std::string& op, const Dims& dims, std::int64_t side) {
  return {.name = op + "_of_" + std::to_string(side) + "_dims",
          .op = op,
          .sizes = {{"heads", 3}, {"embed", 15}, {"embed~1", 15}, {"heads~1", 3}},
          .operands = {{.dims = dims, .full = true}},
          .attributes = {{"ridge", 0.25}, {"side", side}},
          .host_only = true};
}

OpCase adam_direction() {
  return {.name = "adam_direction",
          .op = "adam_direction",
          .sizes = {{"rows", 37}, {"columns", 53}},
          .operands = {{.dims = {"rows", "columns"}, .full = true},
                       {.dims = {"rows", "columns"}, .fill = Fill::positive, .full = true}},
          .attributes = {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}},
          .host_only = true};
}

OpCase running_average() {
  return {.name = "running_average",
          .op = "running_average_update",
          .sizes = kBucket,
          .operands = {{kFlat}, kScalar},
          .attributes = {{"micro_batches", 3.0},
                         {"is_direction", true},
                         {"weight_decay", 0.0},
                         {"decay_elements", std::int64_t{0}}},
          .results = {state()}};
}

OpCase sign() {
  OpCase made = running_average();
  made.name = "sign";
  made.op = "sign_update";
  made.attributes.set("step", 0.001);
  return made;
}

OpCase of_gradient(OpCase op_case, DType gradient) {
  op_case.name += "_of_" + std::string(to_string(gradient));
  op_case.operands[0].dtype = gradient;
  op_case.operands[0].full = true;
  return op_case;
}

/// The first operand is a direction, which is not scaled.
OpCase along_direction(OpCase op_case) {
  op_case.name += "_along_direction";
  op_case.attributes.set("is_direction", true);
  return op_case;
}

OpCase clipped_by_value(OpCase op_case) {
  op_case.name += "_clipped";
  op_case.attributes.set("clip_value", 0.25);
  return op_case;
}

/// An update of 16-bit values through a master copy in f32.
OpCase with_master(OpCase op_case, DType values, DType gradient) {
  op_case.name += "_master_of_" + std::string(to_string(values)) + "_gradient_" + std::string(to_string(gradient));
  op_case.operands[0].dtype = gradient;
  op_case.operands[0].full = true;
  op_case.results.insert(op_case.results.begin(), {.dims = kFlat, .dtype = values});
  return op_case;
}

OpCase sharded(OpCase op_case, int index) {
  op_case.name += "_shard_" + std::to_string(index);
  op_case.sizes["flat"] = 10000;
  op_case.shards["flat"] = shard(10000, 4, index);
  return op_case;
}

OpCase weighted_sum(const std::string& name, const std::vector<double>& factors, const CaseOperand& operand) {
  OpCase op_case{.name = "weighted_sum_" + name, .op = "weighted_sum", .sizes = kBucket, .operands = {}};
  if (operand.dims.empty()) op_case.sizes = {};
  for (std::size_t i = 0; i < factors.size(); ++i) {
    op_case.operands.push_back(operand);
    op_case.attributes.set("factor" + std::to_string(i), factors[i]);
  }
  op_case.results = {operand};
  return op_case;
}

OpCase accumulated(OpCase op_case) {
  op_case.name += "_accumulate";
  op_case.accumulate = true;
  return op_case;
}

/// Three groups, one of them in two runs, and in the bucket's padding.
OpCase group_squares() {
  return {.name = "group_squares",
          .op = "group_squares",
          .sizes = {{"flat", 10007}, {"groups", 4}},
          .operands = {{kFlat}},
          .attributes = group_attributes({{17, 1}, {5000, 0}, {5001, 3}, {10007, 1}}, 4),
          .results = {{.dims = {"groups"}, .dtype = DType::f64}},
          .tolerance = 1e-13};
}

OpCase rounded(OpCase op_case, DType dtype) {
  op_case.name += "_to_" + std::string(to_string(dtype));
  op_case.results[0] = {.dims = kFlat, .dtype = dtype};
  return op_case;
}

}  // namespace

std::vector<OpCase> program_op_cases() {
  OpCase sum_of_squares{.name = "sum_of_squares",
                        .op = "sum_of_squares",
                        .sizes = kBucket,
                        .operands = {{kFlat}},
                        .results = {kScalar},
                        .tolerance = 1e-13};  // in f64 on every device; only the order differs
  return {
      {.name = "fill_zero", .op = "fill_zero", .sizes = kBucket, .operands = {}, .results = {{kFlat}}},
      {.name = "fill_zero_scalar", .op = "fill_zero", .sizes = {}, .operands = {}, .results = {kScalar}},
      {.name = "accumulate", .op = "accumulate", .sizes = kBucket, .operands = {{kFlat}}, .results = {{kFlat}}},
      {.name = "accumulate_of_bf16",
       .op = "accumulate",
       .sizes = kBucket,
       .operands = {{kFlat, Fill::normal, DType::bf16}},
       .results = {state()}},
      {.name = "accumulate_in_bf16",
       .op = "accumulate",
       .sizes = kBucket,
       .operands = {state()},
       .results = {{kFlat, Fill::normal, DType::bf16}}},
      {.name = "accumulate_scalar", .op = "accumulate", .sizes = {}, .operands = {kScalar}, .results = {kScalar}},
      weighted_sum("of_one", {-0.5}, {kFlat}),
      weighted_sum("of_two", {1.0, -1.0}, {kFlat}),
      weighted_sum("of_three", {1.0, -0.35, 0.9}, {kFlat}),
      with_in_place(weighted_sum("of_two", {1.0, -1.0}, {kFlat}), 0),
      weighted_sum("of_scalars", {1.0, 0.0}, kScalar),
      rounded(weighted_sum("of_states", {1.0}, state()), DType::bf16),
      rounded(weighted_sum("of_states", {1.0}, state()), DType::f16),
      sum_of_squares,
      accumulated(sum_of_squares),
      group_squares(),
      sharded(group_squares(), 1),
      accumulated(group_squares()),
      gradient_scale("clipped", {{"clip", 1e-3}}),
      gradient_scale("below_the_limit", {{"clip", 1e3}}),
      gradient_scale("unlimited", {{"clip", 0.0}}),
      gradient_scale("skipping", {{"clip", 1.0}, {"skips_empty", true}}),
      adamw("no_decay", 0),
      adamw("all_decay", 10007),
      adamw("decay_of_the_first", 4321),
      sharded(adamw("decay_of_the_first", 6321), 1),
      sharded(adamw("decay_of_the_first", 6321), 2),
      sharded(adamw("decay_of_the_first", 6321), 3),
      sgd("plain", 0.0, 0),
      sgd("plain_with_decay", 0.0, 4321),
      sharded(sgd("plain_with_decay", 0.0, 6321), 2),
      sgd("momentum", 0.9, 4321),
      sharded(sgd("momentum", 0.9, 6321), 2),
      nesterov(sgd("momentum", 0.9, 4321)),
      clipped_by_value(adamw("all_decay", 10007)),
      clipped_by_value(sgd("plain", 0.0, 4321)),
      clipped_by_value(nesterov(sgd("momentum", 0.9, 4321))),
      clipped_by_value(lion("all_decay", 10007)),
      scaled_gradient(),
      clipped_by_value(scaled_gradient()),
      sharded(scaled_gradient(), 1),
      of_gradient(scaled_gradient(), DType::bf16),
      square_matrices("identity_minus", {"heads", "embed", "embed~1"}, 1),
      square_matrices("identity_minus", {"heads", "embed", "heads~1", "embed~1"}, 2),
      square_matrices("orthonormal_rows", {"heads", "embed", "embed~1"}, 1),
      square_matrices("orthonormal_rows", {"heads", "embed", "heads~1", "embed~1"}, 2),
      adam_direction(),
      running_average(),
      sharded(running_average(), 1),
      with_master(running_average(), DType::bf16, DType::f32),
      sign(),
      sharded(sign(), 1),
      with_master(sign(), DType::bf16, DType::f32),
      momentum_direction(false),
      momentum_direction(true),
      clipped_by_value(momentum_direction(true)),
      sharded(momentum_direction(true), 1),
      of_gradient(momentum_direction(true), DType::bf16),
      along_direction(adamw("all_decay", 10007)),
      along_direction(sgd("plain_with_decay", 0.0, 4321)),
      along_direction(lion("no_decay", 0)),
      with_master(along_direction(sgd("plain_with_decay", 0.0, 4321)), DType::bf16, DType::bf16),
      lion("no_decay", 0),
      lion("decay_of_the_first", 4321),
      sharded(lion("decay_of_the_first", 6321), 2),
      with_master(lion("decay_of_the_first", 4321), DType::bf16, DType::f32),
      with_master(lion("decay_of_the_first", 4321), DType::f16, DType::bf16),
      with_master(adamw("decay_of_the_first", 4321), DType::bf16, DType::f32),
      with_master(adamw("decay_of_the_first", 4321), DType::bf16, DType::bf16),
      with_master(adamw("decay_of_the_first", 4321), DType::f16, DType::f32),
      with_master(sharded(adamw("decay_of_the_first", 6321), 2), DType::f16, DType::bf16),
      with_master(sgd("momentum", 0.9, 4321), DType::bf16, DType::f32),
      with_master(sgd("plain", 0.0, 4321), DType::f16, DType::f32),
      with_master(sgd("plain", 0.0, 4321), DType::bf16, DType::bf16),
  };
}

}  // namespace strata::testing

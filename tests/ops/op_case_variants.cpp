#include "ops/op_case_variants.hpp"

#include <utility>

namespace strata::testing {

void append(std::vector<OpCase>& cases, std::vector<OpCase> more) {
  for (OpCase& each : more) cases.push_back(std::move(each));
}

CaseOperand full(const Dims& dims, Fill fill) { return {.dims = dims, .fill = fill, .full = true}; }

OpCase with_accumulate(OpCase op_case) {
  op_case.name += "_accumulate";
  op_case.accumulate = true;
  op_case.differentiable = false;
  return op_case;
}

OpCase with_sizes(OpCase op_case, const DimSizes& sizes, const std::string& suffix) {
  op_case.name += suffix;
  op_case.sizes = sizes;
  op_case.differentiable = false;
  return op_case;
}

OpCase with_shard(OpCase op_case, const Dim& dim, const IndexMap& map, const std::string& suffix) {
  op_case.name += suffix;
  op_case.shards[dim] = map;
  op_case.differentiable = false;
  return op_case;
}

OpCase with_in_place(OpCase op_case, int operand) {
  op_case.name += "_in_place_of_" + std::to_string(operand);
  op_case.in_place = operand;
  op_case.differentiable = false;
  return op_case;
}

OpCase with_f32_result(OpCase op_case) {
  op_case.name += "_in_f32";
  op_case.attributes.set("dtype", std::string("f32"));
  op_case.differentiable = false;
  return op_case;
}

}  // namespace strata::testing

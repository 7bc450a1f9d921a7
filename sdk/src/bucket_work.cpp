#include "strata/bucket_work.hpp"

#include <utility>

#include "strata/compiler_ops.hpp"

namespace strata {

BucketContext::~BucketContext() = default;

Instruction weighted_sum(std::string name, const std::vector<WeightedTerm>& terms, BufferId into) {
  Compute work{.op = ops::kWeightedSum};
  Instruction instruction;
  instruction.name = std::move(name);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    work.attributes.set("factor" + std::to_string(i), terms[i].factor);
    instruction.inputs.push_back(terms[i].buffer);
  }
  instruction.outputs = {into};
  instruction.work = std::move(work);
  return instruction;
}

}  // namespace strata

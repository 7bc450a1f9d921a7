#include "work_order.hpp"

namespace pipeline {

int WorkOrder::count(strata::Phase phase, int chunk) const {
  const auto found = counts_.find({phase, chunk});
  return found == counts_.end() ? 0 : found->second;
}

void WorkOrder::append(strata::Phase phase, int chunk) { tasks_.push_back({phase, counts_[{phase, chunk}]++, chunk}); }

}  // namespace pipeline

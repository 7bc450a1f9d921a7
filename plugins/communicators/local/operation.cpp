#include "operation.hpp"

#include <algorithm>

#include "strata/error.hpp"

namespace strata::local {

int Group::index_of(int rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

namespace {

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

}  // namespace

std::string describe_contents(const CollectiveCall& call) {
  std::string text(to_string(call.kind));
  if (reduces(call.kind)) text += " " + std::string(to_string(call.reduction));
  text += " of " + std::to_string(call.elements) + " " + std::string(to_string(call.dtype));
  if (call.kind == CollectiveKind::broadcast) text += " from root " + std::to_string(call.root);
  return text;
}

bool agree(const CollectiveCall& left, const CollectiveCall& right) {
  return left.kind == right.kind && left.dtype == right.dtype && left.elements == right.elements &&
         (!reduces(left.kind) || left.reduction == right.reduction) &&
         (left.kind != CollectiveKind::broadcast || left.root == right.root);
}

void raise(const Fault& fault) {
  if (fault.aborted) throw AbortedError(fault.text);
  throw RuntimeError(fault.text);
}

}  // namespace strata::local

#include "operation.hpp"

#include <algorithm>

#include "shared/calls.hpp"
#include "strata/error.hpp"

namespace strata::local {

int Group::index_of(int rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

std::string describe(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::collective:
      return communicators::describe(operation.call, operation.name);
    case Operation::Kind::send:
      return communicators::describe_send(operation.message, operation.name);
    case Operation::Kind::receive:
      return communicators::describe_receive(operation.message, operation.name);
  }
  return {};
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

#include "shared/operation.hpp"

#include "strata/error.hpp"

namespace strata::communicators {

void raise(const Fault& fault) {
  if (fault.aborted) throw AbortedError(fault.text);
  throw RuntimeError(fault.text);
}

Operation::Operation(int rank, const CollectiveCall& call)
    : rank(rank), name(call.name != nullptr ? *call.name : ""), call(call) {}

Operation::Operation(Kind kind, int rank, const MessageCall& message)
    : kind(kind), rank(rank), name(message.name != nullptr ? *message.name : ""), message(message) {}

std::string describe(const Operation& operation) {
  const auto named = [&](const std::string& what, std::uint64_t id) {
    return what + " '" + operation.name + "' (id " + std::to_string(id) + ")";
  };
  const MessageCall& message = operation.message;
  switch (operation.kind) {
    case Operation::Kind::collective:
      return named(std::string(to_string(operation.call.kind)), operation.call.id);
    case Operation::Kind::send:
      return named("send", message.id) + " to rank " + std::to_string(message.peer);
    case Operation::Kind::receive:
      return named("receive", message.id) + " from rank " + std::to_string(message.peer);
  }
  return {};
}

std::string fault_text(const Operation& operation, const std::string& why) {
  return "rank " + std::to_string(operation.rank) + ": " + describe(operation) + ": " + why;
}

}  // namespace strata::communicators

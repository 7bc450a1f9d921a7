#include "compiler/check/communication_trace.hpp"

#include <algorithm>
#include <map>

#include "compiler/check/communication_under_way.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Where the ranks of a group that has chosen members stand.
std::vector<int> member_ranks(const Counterparts& with, const Mesh& mesh, int rank) {
  std::vector<int> ranks;
  Coordinates at = mesh.coordinates(rank);
  for (const int member : with.members) {
    at.at(with.axes.front()) = member;
    ranks.push_back(mesh.rank(at));
  }
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    throw VerificationError("rank " + std::to_string(rank) + " takes part in a collective over " + with.axes.front() +
                            " of which it is no member");
  }
  return ranks;
}

TracedCommunication traced(const Program& program, const TaskInstance& at, std::size_t index,
                           const Instruction& instruction) {
  TracedCommunication step{at, index, &instruction};
  for (const BufferId id : instruction.inputs) step.input_elements += program.buffer(id).elements();
  for (const BufferId id : instruction.outputs) step.output_elements += program.buffer(id).elements();
  const std::vector<BufferId>& any = instruction.inputs.empty() ? instruction.outputs : instruction.inputs;
  if (any.empty()) throw VerificationError("communication '" + instruction.name + "' has no buffer");
  step.dtype = program.buffer(any.front()).dtype;
  return step;
}

/// Appends "what: a and b" where the two differ.
template <class Value>
void compare(std::vector<std::string>& differences, const std::string& what, const Value& a, const Value& b) {
  if (a == b) return;
  const auto text = [](const auto& value) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      return std::to_string(value);
    } else {
      return std::string(to_string(value));
    }
  };
  differences.push_back(what + ": " + text(a) + " and " + text(b));
}

}  // namespace

Counterparts counterparts_of(const Program& program, const Instruction& instruction) {
  Counterparts result{instruction.axes, instruction.members, std::nullopt, instruction.relative_peer};
  for (const Axis& axis : result.axes) static_cast<void>(program.mesh.order(axis));  // throws on an unknown one
  std::sort(result.axes.begin(), result.axes.end(),
            [&](const Axis& a, const Axis& b) { return program.mesh.order(a) < program.mesh.order(b); });
  const int ranks = program.group_size(instruction);
  const bool is_message = instruction.kind != InstructionKind::collective;
  if (is_message && result.axes.size() != 1) {
    throw VerificationError("message '" + instruction.name + "' does not go along one axis");
  }
  const bool needs_peer = is_message || instruction.collective == CollectiveKind::broadcast;
  const int lowest = instruction.relative_peer ? 1 - ranks : 0;
  if (needs_peer && (instruction.peer < lowest || instruction.peer >= ranks)) {
    throw VerificationError("communication '" + instruction.name + "' names rank " + std::to_string(instruction.peer) +
                            " of " + std::to_string(ranks) + " over " + join(result.axes, "+"));
  }
  if (is_message) result.peer = instruction.peer;
  return result;
}

CommunicationTrace trace_communication(const Program& program) {
  CommunicationTrace trace{&program, {}, {}};
  std::map<Counterparts, std::size_t> numbers;
  std::map<const Instruction*, std::size_t> number_of;
  for_each_instruction(program, [&](const TaskInstance& at, std::size_t index, const Instruction& instruction) {
    if (!is_communication(instruction)) return;
    auto known = number_of.find(&instruction);
    if (known == number_of.end()) {
      const Counterparts counterparts = counterparts_of(program, instruction);
      const auto [place, added] = numbers.try_emplace(counterparts, trace.counterparts.size());
      if (added) trace.counterparts.push_back(counterparts);
      known = number_of.emplace(&instruction, place->second).first;
    }
    trace.steps.push_back(traced(program, at, index, instruction));
    trace.steps.back().counterparts = known->second;
  });
  return trace;
}

std::vector<int> ranks_of(const Counterparts& with, const Mesh& mesh, int rank) {
  if (!with.peer) return with.members.empty() ? mesh.group(rank, with.axes) : member_ranks(with, mesh, rank);
  Coordinates at = mesh.coordinates(rank);
  int& coordinate = at.at(with.axes.front());
  coordinate = with.relative ? around(coordinate, *with.peer, mesh.size(with.axes.front())) : *with.peer;
  return {mesh.rank(at)};
}

std::string describe(const TracedCommunication& step) {
  const Instruction& instruction = *step.instruction;
  std::string text(step.is_collective() ? to_string(instruction.collective) : to_string(instruction.kind));
  text += " '" + instruction.name + "' (id " + std::to_string(instruction.id);
  if (step.at.micro_batch >= 0) text += ", micro-batch " + std::to_string(step.at.micro_batch);
  if (step.is_collective()) text += ", " + std::string(to_string(instruction.reduction));
  const std::int64_t elements = instruction.inputs.empty() ? step.output_elements : step.input_elements;
  return text + ", " + std::string(to_string(step.dtype)) + ", " + std::to_string(elements) + " elements, over " +
         join(instruction.axes, "+") + ")";
}

std::string collective_difference(const TracedCommunication& a, const TracedCommunication& b) {
  std::vector<std::string> differences;
  compare(differences, "id", a.instruction->id, b.instruction->id);
  compare(differences, "micro-batch", a.at.micro_batch, b.at.micro_batch);
  compare(differences, "kind", a.instruction->collective, b.instruction->collective);
  compare(differences, "reduction", a.instruction->reduction, b.instruction->reduction);
  compare(differences, "type", a.dtype, b.dtype);
  compare(differences, "input elements", a.input_elements, b.input_elements);
  compare(differences, "output elements", a.output_elements, b.output_elements);
  if (a.instruction->collective == CollectiveKind::broadcast) {
    compare(differences, "root", a.instruction->peer, b.instruction->peer);
  }
  return join(differences, "; ");
}

std::string message_difference(const TracedCommunication& send, const TracedCommunication& receive) {
  std::vector<std::string> differences;
  compare(differences, "id", send.instruction->id, receive.instruction->id);
  compare(differences, "micro-batch", send.at.micro_batch, receive.at.micro_batch);
  compare(differences, "type", send.dtype, receive.dtype);
  compare(differences, "elements", send.input_elements, receive.output_elements);
  return join(differences, "; ");
}

}  // namespace strata::host

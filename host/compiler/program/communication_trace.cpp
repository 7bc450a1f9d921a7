#include "compiler/program/communication_trace.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "compiler/program/buffer_ranges.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The participating ranks of a group that selects members.
std::vector<int> member_ranks(const Counterparts& with, const Mesh& mesh, int rank) {
  std::vector<int> ranks;
  Coordinates at = mesh.coordinates(rank);
  for (const int member : with.members) {
    at.at(with.axes.front()) = member;
    ranks.push_back(mesh.rank(at));
  }
  if (!contains(ranks, rank)) {
    throw VerificationError("rank " + std::to_string(rank) + " takes part in a collective over " + with.axes.front() +
                            " of which it is no member");
  }
  return ranks;
}

/// What is the same in all runs of the instruction, but for its counterparts.
TracedCommunication traced(const Program& program, std::size_t index, const Instruction& instruction) {
  TracedCommunication step{.index = index, .instruction = &instruction};
  for (const BufferId id : instruction.inputs) step.input_elements += program.buffer(id).elements();
  for (const BufferId id : instruction.outputs) step.output_elements += program.buffer(id).elements();
  const std::vector<BufferId>& any = instruction.inputs.empty() ? instruction.outputs : instruction.inputs;
  if (any.empty()) throw VerificationError("communication '" + instruction.name + "' has no buffer");
  step.dtype = program.buffer(any.front()).dtype;
  return step;
}

/// Appends "what: a and b" if the two differ.
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

Counterparts counterparts_of(const Program& program, const std::string& name, const Collective& collective) {
  Counterparts result{collective.axes, collective.members, std::nullopt, false};
  for (const Axis& axis : result.axes) static_cast<void>(program.mesh.order(axis));  // throws on an unknown axis
  std::ranges::sort(result.axes,
                    [&](const Axis& a, const Axis& b) { return program.mesh.order(a) < program.mesh.order(b); });
  const int ranks = program.group_size(collective);
  if (collective.kind == CollectiveKind::broadcast && (collective.root < 0 || collective.root >= ranks)) {
    throw VerificationError("communication '" + name + "' names rank " + std::to_string(collective.root) + " of " +
                            std::to_string(ranks) + " over " + join(result.axes, "+"));
  }
  return result;
}

Counterparts counterparts_of(const Program& program, const std::string& name, const Peer& peer) {
  const int ranks = program.mesh.size(peer.axis);
  const int lowest = peer.is_relative ? 1 - ranks : 0;
  if (peer.coordinate < lowest || peer.coordinate >= ranks) {
    throw VerificationError("communication '" + name + "' names rank " + std::to_string(peer.coordinate) + " of " +
                            std::to_string(ranks) + " over " + peer.axis);
  }
  return {{peer.axis}, {}, peer.coordinate, peer.is_relative};
}

}  // namespace

Counterparts counterparts_of(const Program& program, const Instruction& instruction) {
  if (const auto* collective = instruction.as<Collective>()) {
    return counterparts_of(program, instruction.name, *collective);
  }
  if (const auto* send = instruction.as<Send>()) return counterparts_of(program, instruction.name, send->to);
  if (const auto* receive = instruction.as<Receive>()) {
    return counterparts_of(program, instruction.name, receive->from);
  }
  throw VerificationError("instruction '" + instruction.name + "' is no communication");
}

namespace {

class Tracer {
 public:
  explicit Tracer(const Program& program) : program_(program), ranges_(program), runs_(program.tasks.size()) {
    trace_.program = &program;
  }

  CommunicationTrace run(std::uint64_t step) {
    std::int64_t begin = 0;
    for (const TaskInstance& at : program_.schedule) {
      const TaskRun& run = run_of(at, step);
      for (const auto& [place, index] : run.relevant) {
        const Instruction& instruction = task(at).instructions[index];
        ordinal_ = begin + place;
        ranges_.for_each_wait(instruction, at.micro_batch,
                              [&, index = index](const ByteRange& range) { wait(at, index, instruction, range); });
        if (is_communication(instruction)) add(at, index, instruction);
      }
      begin += run.length;
    }
    return std::move(trace_);
  }

 private:
  /// The instructions of a task that matter here. All its runs but the last execute the same ones.
  struct TaskRun {
    /// Number of instructions; -1: not known yet.
    std::int64_t length = -1;
    /// Communication and instructions that wait for it: the place in the run, and the index in the task.
    std::vector<std::pair<std::int64_t, std::size_t>> relevant = {};
  };

  [[nodiscard]] const Task& task(const TaskInstance& at) const {
    return program_.tasks.at(static_cast<std::size_t>(at.task));
  }

  const TaskRun& run_of(const TaskInstance& at, std::uint64_t step) {
    const std::vector<Instruction>& instructions = task(at).instructions;
    TaskRun& run = runs_[static_cast<std::size_t>(at.task)][at.is_last ? 1 : 0];
    if (run.length >= 0) return run;
    run.length = 0;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& each = instructions[i];
      if (!at.runs(each) || !each.when.holds(step)) continue;
      const bool waits = !each.waits.empty() || !each.earlier_waits.empty();
      if (waits || is_communication(each)) run.relevant.emplace_back(run.length, i);
      ++run.length;
    }
    return run;
  }

  struct SendInFlight {
    ByteRange range;
    std::size_t step = 0;
  };

  void add(const TaskInstance& at, std::size_t index, const Instruction& instruction) {
    auto known = known_.find(&instruction);
    if (known == known_.end()) {
      const Counterparts counterparts = host::counterparts_of(program_, instruction);
      const auto [place, added] = numbers_.try_emplace(counterparts, trace_.counterparts.size());
      if (added) trace_.counterparts.push_back(counterparts);
      known = known_.emplace(&instruction, traced(program_, index, instruction)).first;
      known->second.counterparts = place->second;
    }
    trace_.steps.push_back(known->second);
    trace_.steps.back().at = at;
    trace_.steps.back().ordinal = ordinal_;
    if (!instruction.is<Send>()) return;
    const ByteRange range = ranges_.range(instruction.inputs.front(), at.micro_batch);
    sends_[range.instance].push_back({range, trace_.steps.size() - 1});
  }

  /// Adds a wait for every send in flight that reads memory of `range`, as the executor waits for all of them.
  void wait(const TaskInstance& at, std::size_t index, const Instruction& instruction, const ByteRange& range) {
    const auto found = sends_.find(range.instance);
    if (found == sends_.end()) return;
    std::erase_if(found->second, [&](const SendInFlight& send) {
      if (!send.range.overlaps(range)) return false;
      trace_.steps.push_back({.at = at,
                              .index = index,
                              .instruction = &instruction,
                              .ordinal = ordinal_,
                              .awaited = send.step,
                              .counterparts = trace_.steps[send.step].counterparts});
      return true;
    });
    if (found->second.empty()) sends_.erase(found);
  }

  const Program& program_;
  const BufferRanges ranges_;
  /// By task: the earlier runs, and the last one.
  std::vector<std::array<TaskRun, 2>> runs_;
  CommunicationTrace trace_;
  std::int64_t ordinal_ = 0;
  std::map<Counterparts, std::size_t> numbers_;
  std::unordered_map<const Instruction*, TracedCommunication> known_;
  std::map<std::int64_t, std::vector<SendInFlight>> sends_;  // by instance of memory
};

}  // namespace

CommunicationTrace trace_communication(const Program& program, std::uint64_t step) { return Tracer(program).run(step); }

std::vector<int> ranks_of(const Counterparts& with, const Mesh& mesh, int rank) {
  if (!with.peer) return with.members.empty() ? mesh.group(rank, with.axes) : member_ranks(with, mesh, rank);
  Coordinates at = mesh.coordinates(rank);
  int& coordinate = at.at(with.axes.front());
  coordinate = with.relative ? around(coordinate, *with.peer, mesh.size(with.axes.front())) : *with.peer;
  return {mesh.rank(at)};
}

std::string describe(const TracedCommunication& step) {
  const Instruction& instruction = *step.instruction;
  const auto* collective = instruction.as<Collective>();
  std::string text = work_name(instruction);
  text += " '" + instruction.name + "'";
  if (step.awaited) {
    return text + (step.at.micro_batch < 0 ? "" : " (micro-batch " + std::to_string(step.at.micro_batch) + ")");
  }
  text += " (id " + std::to_string(communication_id(instruction));
  if (step.at.micro_batch >= 0) text += ", micro-batch " + std::to_string(step.at.micro_batch);
  if (collective != nullptr) text += ", " + std::string(to_string(collective->reduction));
  const std::int64_t elements = instruction.inputs.empty() ? step.output_elements : step.input_elements;
  return text + ", " + std::string(to_string(step.dtype)) + ", " + std::to_string(elements) + " elements, over " +
         join(communication_axes(instruction), "+") + ")";
}

std::string collective_difference(const TracedCommunication& a, const TracedCommunication& b) {
  std::vector<std::string> differences;
  const auto& of_a = std::get<Collective>(a.instruction->work);
  const auto& of_b = std::get<Collective>(b.instruction->work);
  compare(differences, "id", of_a.id, of_b.id);
  compare(differences, "micro-batch", a.at.micro_batch, b.at.micro_batch);
  compare(differences, "kind", of_a.kind, of_b.kind);
  compare(differences, "reduction", of_a.reduction, of_b.reduction);
  compare(differences, "type", a.dtype, b.dtype);
  compare(differences, "input elements", a.input_elements, b.input_elements);
  compare(differences, "output elements", a.output_elements, b.output_elements);
  if (of_a.kind == CollectiveKind::broadcast) compare(differences, "root", of_a.root, of_b.root);
  return join(differences, "; ");
}

std::string message_difference(const TracedCommunication& send, const TracedCommunication& receive) {
  std::vector<std::string> differences;
  compare(differences, "id", communication_id(*send.instruction), communication_id(*receive.instruction));
  compare(differences, "micro-batch", send.at.micro_batch, receive.at.micro_batch);
  compare(differences, "type", send.dtype, receive.dtype);
  compare(differences, "elements", send.input_elements, receive.output_elements);
  return join(differences, "; ");
}

}  // namespace strata::host

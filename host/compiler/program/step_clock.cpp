#include "compiler/program/step_clock.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/program/folded_mesh.hpp"

namespace strata::host {

StepClock::StepClock(const std::vector<Program>& programs, const std::vector<int>& class_of_rank, std::uint64_t step) {
  for (const Program& program : programs) {
    Class& own = classes_.emplace_back();
    own.trace = trace_communication(program, step);
    own.received.assign(own.trace.steps.size(), -1);
    own.moments.reserve(own.trace.steps.size());
  }
  AxisSet addressed;
  for (const Program& program : programs) addressed.merge(addressed_axes(program));
  const Mesh& whole = programs.front().mesh;
  const Mesh mesh = folded_mesh(whole, class_of_rank, addressed);
  const std::vector<int> folded = folded_labels(mesh, whole, class_of_rank);
  for (int number = 0; number < static_cast<int>(classes_.size()); ++number) {
    resolve_counterparts(number, mesh, folded);
    ready_.push_back(number);
  }
  run();
  has_ended_ =
      std::ranges::all_of(classes_, [](const Class& each) { return each.position == each.trace.steps.size(); });
}

void StepClock::resolve_counterparts(int number, const Mesh& mesh, const std::vector<int>& class_of_rank) {
  const auto first = std::ranges::find(class_of_rank, number);
  if (first == class_of_rank.end()) return;
  const int rank = static_cast<int>(first - class_of_rank.begin());
  Class& own = at(number);
  for (const Counterparts& with : own.trace.counterparts) {
    std::set<int> classes;
    for (const int other : ranks_of(with, mesh, rank)) {
      classes.insert(class_of_rank.at(static_cast<std::size_t>(other)));
    }
    own.counterparts.emplace_back(classes.begin(), classes.end());
  }
}

void StepClock::run() {
  while (!ready_.empty()) {
    const int number = ready_.front();
    ready_.pop_front();
    while (at(number).position < at(number).trace.steps.size() && advance(number)) {
    }
  }
}

/// Executes the next step of the class's trace. \return false if it must wait for another class.
bool StepClock::advance(int number) {
  Class& own = at(number);
  const TracedCommunication& step = own.trace.steps[own.position];
  std::int64_t now = step.ordinal;
  if (own.position > 0) now += own.moments.back() - own.trace.steps[own.position - 1].ordinal;
  if (step.awaited) {
    const std::int64_t received = own.received[*step.awaited];
    if (received < 0) return false;
    pass(number, std::max(now, received + 1));
    return true;
  }
  const Instruction& instruction = *step.instruction;
  if (instruction.is<Collective>()) return collective(number, step, now);
  const int peer = own.counterparts[step.counterparts].front();
  const std::uint64_t id = communication_id(instruction);
  if (instruction.is<Send>()) {
    messages_[{number, peer, id, step.at.micro_batch}] = {now, own.position};
    pass(number, now);
    ready_.push_back(peer);
    return true;
  }
  const auto message = messages_.find({peer, number, id, step.at.micro_batch});
  if (message == messages_.end()) return false;
  const std::int64_t moment = std::max(now, message->second.moment + 1);
  std::int64_t& received = at(peer).received[message->second.step];
  received = std::max(received, moment);
  pass(number, moment);
  ready_.push_back(peer);
  return true;
}

bool StepClock::collective(int number, const TracedCommunication& step, std::int64_t moment) {
  const std::vector<int>& members = at(number).counterparts[step.counterparts];
  if (members.size() < 2) {
    pass(number, moment);
    return true;
  }
  std::map<int, std::int64_t>& arrived = arrived_[{members, communication_id(*step.instruction), step.at.micro_batch}];
  arrived[number] = moment;
  if (arrived.size() < members.size()) return false;
  std::int64_t last = 0;
  for (const auto& [member, at] : arrived) last = std::max(last, at);
  for (const auto& [member, at] : std::exchange(arrived, {})) {
    pass(member, last);
    if (member != number) ready_.push_back(member);
  }
  return true;
}

void StepClock::pass(int number, std::int64_t moment) {
  at(number).moments.push_back(moment);
  ++at(number).position;
}

std::int64_t StepClock::moment(std::size_t program, std::int64_t ordinal) const {
  const Class& own = classes_[program];
  const auto& steps = own.trace.steps;
  const auto next = std::ranges::upper_bound(steps, ordinal, {}, &TracedCommunication::ordinal);
  if (next == steps.begin()) return ordinal;
  const auto before = static_cast<std::size_t>(next - steps.begin()) - 1;
  return own.moments[before] + ordinal - steps[before].ordinal;
}

int StepClock::peer(std::size_t program, std::size_t message) const {
  const Class& own = classes_[program];
  return own.counterparts.at(own.trace.steps.at(message).counterparts).front();
}

std::optional<std::int64_t> StepClock::received(std::size_t program, std::size_t send) const {
  const std::int64_t moment = classes_[program].received[send];
  return moment < 0 ? std::nullopt : std::optional(moment);
}

}  // namespace strata::host

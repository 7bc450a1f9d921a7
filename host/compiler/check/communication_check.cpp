#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "compiler/check/program_check.hpp"
#include "compiler/program/communication_trace.hpp"
#include "compiler/program/folded_mesh.hpp"
#include "compiler/program/short_schedule.hpp"
#include "compiler/program/step_variants.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Number of stuck ranks that a message names individually.
constexpr std::size_t kRanksToName = 8;

/// Simulates the communication of all ranks in one step. Every rank has one queue that runs communication in the order
/// in which it was started. A rank stops at a receive until the message is there, at a collective until all members are
/// there, and at an instruction that waits for a send until the message is received. The executor stops at a receive
/// or a collective only when an instruction waits for it, so it never stops where this simulation does not. Compute is
/// left out, because it only delays a rank.
class LockStep {
 public:
  LockStep(const RankPrograms& ranks, const CommunicatorLimits& limits, std::uint64_t step_number)
      : mesh_(ranks.mesh), limits_(limits) {
    std::map<const Program*, std::unique_ptr<CommunicationTrace>> traces;
    for (const Program* program : ranks.programs) {
      auto& trace = traces[program];
      if (!trace) trace = std::make_unique<CommunicationTrace>(trace_communication(*program, step_number));
      ranks_.push_back({trace.get(), 0, {}});
    }
    for (auto& [program, trace] : traces) traces_.push_back(std::move(trace));
    for (int rank = 0; rank < rank_count(); ++rank) resolve_counterparts(rank);
  }

  std::optional<std::string> run() {
    for (int rank = 0; rank < rank_count(); ++rank) ready_.push_back(rank);
    while (!ready_.empty() && fault_.empty()) {
      const int rank = ready_.front();
      ready_.pop_front();
      while (fault_.empty() && !done(rank) && advance(rank)) {
      }
    }
    if (fault_.empty()) fault_ = deadlock();
    if (fault_.empty()) fault_ = leftover();
    return fault_.empty() ? std::nullopt : std::optional(fault_);
  }

 private:
  struct Rank {
    const CommunicationTrace* trace = nullptr;
    std::size_t position = 0;
    /// For each of CommunicationTrace::counterparts: the index of the group, or the peer's rank.
    std::vector<int> counterparts;
  };
  struct Group {
    std::vector<int> ranks;
    std::vector<int> arrived;
  };
  struct Channel {
    std::deque<const TracedCommunication*> messages;
    bool sender_waits = false;
    bool receiver_waits = false;
  };

  [[nodiscard]] int rank_count() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool done(int rank) const { return at(rank).position == at(rank).trace->steps.size(); }
  [[nodiscard]] const TracedCommunication& step(int rank) const { return at(rank).trace->steps[at(rank).position]; }
  [[nodiscard]] int counterpart(int rank) const { return at(rank).counterparts[step(rank).counterparts]; }
  /// If messages are matched by their ids, all channels between two ranks are one.
  [[nodiscard]] std::pair<std::int64_t, int> channel_key(int from, int to, int number) const {
    return {std::int64_t{from} * rank_count() + to, limits_.matches_messages_by_id ? 0 : number};
  }

  void resolve_counterparts(int rank) {
    for (const Counterparts& with : at(rank).trace->counterparts) {
      const std::vector<int> ranks = ranks_of(with, mesh_, rank);
      if (with.peer) {
        at(rank).counterparts.push_back(ranks.front());
        if (ranks.front() == rank) {
          throw VerificationError("rank " + std::to_string(rank) + " exchanges messages with itself over " +
                                  with.axes.front());
        }
        continue;
      }
      const auto [place, added] = group_numbers_.try_emplace({with.axes, ranks}, static_cast<int>(groups_.size()));
      if (added) groups_.push_back({ranks, {}});
      at(rank).counterparts.push_back(place->second);
    }
  }

  /// Runs the next communication of `rank`. \return false if it must wait for another rank.
  bool advance(int rank) {
    if (step(rank).awaited) return await(rank);
    const Instruction& instruction = *step(rank).instruction;
    if (instruction.is<Send>()) return send(rank);
    return instruction.is<Receive>() ? receive(rank) : collective(rank);
  }

  bool collective(int rank) {
    Group& group = groups_[static_cast<std::size_t>(counterpart(rank))];
    if (!group.arrived.empty()) {
      const int first = group.arrived.front();
      const std::string difference = collective_difference(step(first), step(rank));
      if (!difference.empty()) return mismatch(first, step(first), rank, step(rank), difference);
    }
    group.arrived.push_back(rank);
    if (group.arrived.size() < group.ranks.size()) return false;
    for (const int member : std::exchange(group.arrived, {})) {
      ++at(member).position;
      if (member != rank) ready_.push_back(member);
    }
    return true;
  }

  bool send(int rank) {
    const int peer = counterpart(rank);
    Channel& channel = channels_[channel_key(rank, peer, step(rank).instruction->as<Send>()->channel)];
    const auto capacity = static_cast<std::size_t>(limits_.channel_capacity);
    channel.sender_waits = capacity > 0 && channel.messages.size() >= capacity;
    if (channel.sender_waits) return false;
    channel.messages.push_back(&step(rank));
    ++at(rank).position;
    if (std::exchange(channel.receiver_waits, false)) ready_.push_back(peer);
    return true;
  }

  /// The send that a wait is for.
  [[nodiscard]] const TracedCommunication& awaited(int rank) const {
    return at(rank).trace->steps[*step(rank).awaited];
  }

  bool await(int rank) {
    const TracedCommunication& sent = awaited(rank);
    Channel& channel = channels_[channel_key(rank, counterpart(rank), sent.instruction->as<Send>()->channel)];
    channel.sender_waits = contains(channel.messages, &sent);
    if (channel.sender_waits) return false;
    ++at(rank).position;
    return true;
  }

  /// The message that `receive` takes: the oldest, or the one with the same id, as the communicator's limits say.
  [[nodiscard]] std::deque<const TracedCommunication*>::const_iterator next_message(
      const Channel& channel, const TracedCommunication& receive) const {
    if (!limits_.matches_messages_by_id) return channel.messages.begin();
    return std::ranges::find_if(channel.messages, [&](const TracedCommunication* sent) {
      return communication_id(*sent->instruction) == communication_id(*receive.instruction) &&
             sent->at.micro_batch == receive.at.micro_batch;
    });
  }

  bool receive(int rank) {
    const int peer = counterpart(rank);
    Channel& channel = channels_[channel_key(peer, rank, step(rank).instruction->as<Receive>()->channel)];
    const auto next = next_message(channel, step(rank));
    channel.receiver_waits = next == channel.messages.end();
    if (channel.receiver_waits) return false;
    const TracedCommunication& message = **next;
    const std::string difference = message_difference(message, step(rank));
    if (!difference.empty()) return mismatch(peer, message, rank, step(rank), difference);
    channel.messages.erase(next);
    ++at(rank).position;
    if (std::exchange(channel.sender_waits, false)) ready_.push_back(peer);
    return true;
  }

  bool mismatch(int a, const TracedCommunication& of_a, int b, const TracedCommunication& of_b,
                const std::string& what) {
    fault_ = "rank " + std::to_string(a) + " at " + describe(of_a) + " meets rank " + std::to_string(b) + " at " +
             describe(of_b) + "; they differ in " + what;
    return false;
  }

  [[nodiscard]] std::string where(int rank) const {
    return "rank " + std::to_string(rank) + (done(rank) ? " has ended" : " is at " + describe(step(rank)));
  }

  [[nodiscard]] std::string deadlock() const {
    std::vector<std::string> stuck;
    std::size_t count = 0;
    for (int rank = 0; rank < rank_count(); ++rank) {
      if (done(rank) || ++count > kRanksToName) continue;
      stuck.push_back(where(rank) + " and waits for " + waited_for(rank));
    }
    if (count == 0) return {};
    if (count > kRanksToName) stuck.push_back("and " + std::to_string(count - kRanksToName) + " ranks more");
    return "deadlock: " + join(stuck, "; ");
  }

  [[nodiscard]] std::string waited_for(int rank) const {
    const int with = counterpart(rank);
    if (step(rank).awaited) {
      return "rank " + std::to_string(with) + " to receive its message " + describe(awaited(rank)) + ", but " +
             where(with);
    }
    const Instruction& instruction = *step(rank).instruction;
    if (instruction.is<Receive>()) return "a message, but " + where(with);
    if (instruction.is<Collective>()) return missing_members(groups_[static_cast<std::size_t>(with)]);
    return "rank " + std::to_string(with) + " to receive one of " + std::to_string(limits_.channel_capacity) +
           " messages in flight (all that the channel takes), but " + where(with);
  }

  [[nodiscard]] std::string missing_members(const Group& group) const {
    std::vector<bool> arrived(ranks_.size(), false);
    for (const int rank : group.arrived) arrived[static_cast<std::size_t>(rank)] = true;
    std::string first;
    std::size_t missing = 0;
    for (const int rank : group.ranks) {
      if (arrived[static_cast<std::size_t>(rank)]) continue;
      if (missing++ == 0) first = "rank " + std::to_string(rank) + ", but " + where(rank);
    }
    return first + (missing > 1 ? " (and " + std::to_string(missing - 1) + " others)" : "");
  }

  /// Describes a message that no rank received; empty if there is none.
  [[nodiscard]] std::string leftover() const {
    for (const auto& [key, channel] : channels_) {
      if (channel.messages.empty()) continue;
      return "rank " + std::to_string(key.first % rank_count()) + " never receives the message of rank " +
             std::to_string(key.first / rank_count()) + ": " + describe(*channel.messages.front());
    }
    return {};
  }

  const Mesh& mesh_;
  const CommunicatorLimits& limits_;
  std::vector<std::unique_ptr<CommunicationTrace>> traces_;
  std::vector<Rank> ranks_;
  std::vector<Group> groups_;
  std::map<std::pair<std::vector<Axis>, std::vector<int>>, int> group_numbers_;
  std::map<std::pair<std::int64_t, int>, Channel> channels_;
  std::deque<int> ready_;
  std::string fault_;
};

/// The programs of all ranks without superfluous micro-batches.
class ShorterRanks {
 public:
  explicit ShorterRanks(const RankPrograms& all) : ranks_(all) {
    std::map<const Program*, std::size_t> numbers;
    for (const Program* program : all.programs) numbers.try_emplace(program, 0);
    std::vector<const Program*> distinct;
    for (auto& [program, number] : numbers) {
      number = distinct.size();
      distinct.push_back(program);
    }
    const int micro_batches = superfluous_micro_batches(distinct);
    if (micro_batches == 0) return;
    for (const Program* program : distinct) programs_.push_back(shortened(*program, micro_batches));
    for (const Program*& program : ranks_.programs) program = &programs_[numbers.at(program)];
  }
  ShorterRanks(const ShorterRanks&) = delete;
  ShorterRanks& operator=(const ShorterRanks&) = delete;

  [[nodiscard]] const RankPrograms& ranks() const { return ranks_; }

 private:
  RankPrograms ranks_;
  std::vector<Program> programs_;
};

bool mixes_replicas(const Task& task, const Instruction& instruction) {
  const bool is_outside = task.kind == Task::Kind::prologue || task.kind == Task::Kind::epilogue;
  if (!is_outside) return is_communication(instruction);
  const auto* collective = instruction.as<Collective>();
  return collective != nullptr &&
         (collective->content == BufferKind::activation || collective->content == BufferKind::parameter);
}

std::string mesh_fault(const RankPrograms& ranks) {
  if (ranks.programs.size() != static_cast<std::size_t>(ranks.mesh.rank_count())) {
    return "there are programs for " + std::to_string(ranks.programs.size()) + " ranks, the mesh has " +
           std::to_string(ranks.mesh.rank_count());
  }
  for (std::size_t rank = 0; rank < ranks.programs.size(); ++rank) {
    if (ranks.programs[rank] == nullptr) return "rank " + std::to_string(rank) + " has no program";
    if (ranks.programs[rank]->mesh.axes() != ranks.mesh.axes()) {
      return "the program of rank " + std::to_string(rank) + " is for another mesh";
    }
  }
  return {};
}

/// Ranks that fold into one communicate alike.
RankPrograms folded_ranks(const RankPrograms& ranks) {
  AxisSet addressed;
  for (const Program* program : std::set<const Program*>(ranks.programs.begin(), ranks.programs.end())) {
    addressed.merge(addressed_axes(*program));
  }
  const Mesh mesh = folded_mesh(ranks.mesh, ranks.programs, addressed);
  return {mesh, folded_labels(mesh, ranks.mesh, ranks.programs)};
}

bool ends(const RankPrograms& ranks, const CommunicatorLimits& limits, std::uint64_t step) {
  try {
    return !LockStep(ranks, limits, step).run();
  } catch (const VerificationError&) {
    return false;
  }
}

}  // namespace

std::optional<std::string> find_communication_fault(const RankPrograms& all, const CommunicatorLimits& limits) {
  const std::string fault = mesh_fault(all);
  if (!fault.empty()) return fault;
  const ShorterRanks shorter(all);
  const RankPrograms& ranks = shorter.ranks();
  try {
    const RankPrograms folded = folded_ranks(ranks);
    const StepVariants steps = step_variants(folded.programs);
    for (const StepVariant& variant : steps.variants) {
      if (ends(folded, limits, variant.step)) continue;
      // Found again among all ranks, of which the message names some.
      const std::optional<std::string> found = LockStep(ranks, limits, variant.step).run();
      const std::string which = steps.describe(variant);
      if (found) return which.empty() ? *found : "in " + which + ": " + *found;
    }
    return std::nullopt;
  } catch (const VerificationError& error) {
    return error.what();
  }
}

std::optional<ReplicaFault> find_replica_fault(const Program& program, const AxisSet& apart) {
  for (const Task& task : program.tasks) {
    for (const Instruction& instruction : task.instructions) {
      if (!mixes_replicas(task, instruction)) continue;
      for (const Axis& axis : communication_axes(instruction)) {
        if (!apart.contains(axis)) continue;
        return ReplicaFault{
            axis, "owns mesh axis '" + axis + "', along which ranks hold different values, but task '" + task.name +
                      "' of program '" + program.name +
                      "' moves activations or parameters over it: " + work_name(instruction) + " '" + instruction.name +
                      "'; accepted: a rule without a filter that maps 'batch' onto it, and ops that do not need "
                      "'batch' whole"};
      }
    }
  }
  return std::nullopt;
}

}  // namespace strata::host

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/instructions.hpp"
#include "compiler/program/short_schedule.hpp"
#include "compiler/program/step_clock.hpp"
#include "compiler/program/step_variants.hpp"

namespace strata::host {
namespace {

/// An instruction that is to wait for sends of `buffer` in the micro-batch `distance` before its own; 0: its own.
struct SendWait {
  std::size_t program = 0;
  int task = 0;
  std::size_t index = 0;
  BufferId buffer = -1;
  int distance = 0;

  auto operator<=>(const SendWait&) const = default;
};

/// If a sender is faster than its receiver, its memory holds the messages of two micro-batches, one to be computed and
/// one to be received.
constexpr int kMessagesInFlight = 2;
/// Micro-batches, at most, after which an instruction waits for a send.
constexpr int kLongestWait = 16;

Instruction& instruction_of(std::vector<Program>& programs, const SendWait& wait) {
  return programs[wait.program].tasks[static_cast<std::size_t>(wait.task)].instructions[wait.index];
}

/// \return false if the instruction waits already.
bool add(std::vector<Program>& programs, const SendWait& wait) {
  Instruction& instruction = instruction_of(programs, wait);
  const auto append = [](auto& waits, const auto& each) {
    const bool is_new = !contains(waits, each);
    if (is_new) waits.push_back(each);
    return is_new;
  };
  if (wait.distance == 0) return append(instruction.waits, wait.buffer);
  return append(instruction.earlier_waits, EarlierWait{wait.buffer, wait.distance});
}

/// Removes a wait that add() has added last.
void remove(std::vector<Program>& programs, const SendWait& wait) {
  Instruction& instruction = instruction_of(programs, wait);
  if (wait.distance == 0) {
    instruction.waits.pop_back();
  } else {
    instruction.earlier_waits.pop_back();
  }
}

/// Finds waits for the program of one class in one variant of the step.
class SentMemory {
 public:
  SentMemory(const Program& program, const StepClock& clock, std::size_t number, std::uint64_t step)
      : program_(program), clock_(clock), number_(number), step_(step), ranges_(program) {}

  struct Waits {
    /// Waits at moments at which the messages are received.
    std::vector<SendWait> late;
    /// Waits that let a sender wait for its receiver, for memory that has no others.
    std::vector<SendWait> blocking;
  };

  [[nodiscard]] Waits run() {
    Waits waits;
    find_sends();
    if (sends_.empty()) return waits;
    find_runs();
    for (const auto& [root, instances] : sends_) {
      if (const auto place = earliest_place(instances)) {
        waits.late.push_back({number_, place->task, place->index, root, place->distance});
      } else if (const auto index = always_executed(instances.front().task, 0)) {
        waits.blocking.push_back({number_, instances.front().task, *index, root, kMessagesInFlight});
      }
    }
    return waits;
  }

 private:
  /// One run of a send.
  struct SendInstance {
    int task = 0;
    int micro_batch = -1;
    std::int64_t instance = 0;  ///< of the memory
    std::int64_t ordinal = 0;
    std::int64_t received = 0;
  };
  struct Run {
    std::int64_t begin = 0;  ///< ordinal of the first instruction
    bool is_last = false;
  };
  /// What a task executes. All its runs but the last execute the same.
  struct TaskRun {
    std::vector<std::size_t> executed;  ///< instructions
    /// By root buffer that is sent: the place of the last instruction that uses it.
    std::map<BufferId, std::int64_t> touched;
  };
  struct Place {
    int task = 0;
    std::size_t index = 0;
    /// Micro-batches between the send's and that of the place.
    int distance = 0;
  };

  void find_sends() {
    const std::vector<TracedCommunication>& steps = clock_.trace(number_).steps;
    std::set<std::size_t> awaited;
    for (const TracedCommunication& step : steps) {
      if (step.awaited) awaited.insert(*step.awaited);
    }
    std::set<BufferId> open;        // has a send that no instruction waits for
    std::set<BufferId> impossible;  // has a send that no class receives
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const TracedCommunication& step = steps[i];
      if (step.awaited || !step.instruction->is<Send>()) continue;
      const BufferId root = ranges_.root(step.instruction->inputs.front());
      // Persistent memory is never reused. Waits of prologue and epilogue would end at the step's end anyway.
      if (ranges_.persistent(root) || step.at.micro_batch < 0) continue;
      const auto received = clock_.received(number_, i);
      if (!received) impossible.insert(root);
      if (!awaited.contains(i)) open.insert(root);
      const std::int64_t instance = ranges_.instance(root, step.at.micro_batch);
      sends_[root].push_back({step.at.task, step.at.micro_batch, instance, step.ordinal, received.value_or(0)});
      last_touch_[instance] = step.ordinal;
    }
    std::erase_if(sends_,
                  [&](const auto& each) { return impossible.contains(each.first) || !open.contains(each.first); });
    is_sent_.resize(program_.buffers.size());
    for (const auto& [root, instances] : sends_) is_sent_[static_cast<std::size_t>(root)] = true;
  }

  /// Finds the runs of all tasks, and the last instruction that uses memory which is sent.
  void find_runs() {
    executed_.resize(program_.tasks.size());
    std::int64_t now = 0;
    for (const TaskInstance& at : program_.schedule) {
      TaskRun& run = executed_[static_cast<std::size_t>(at.task)][at.is_last ? 1 : 0];
      if (run.executed.empty()) run = run_of(at);
      runs_[at.micro_batch].emplace_back(at.task, Run{now, at.is_last});
      for (const auto& [buffer, place] : run.touched) {
        const auto touched = last_touch_.find(ranges_.instance(buffer, at.micro_batch));
        if (touched != last_touch_.end()) touched->second = std::max(touched->second, now + place);
      }
      now += std::ssize(run.executed);
    }
  }

  [[nodiscard]] TaskRun run_of(const TaskInstance& at) const {
    TaskRun run;
    const std::vector<Instruction>& instructions = program_.tasks[static_cast<std::size_t>(at.task)].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      if (!at.runs(instruction) || !instruction.when.holds(step_)) continue;
      for (const auto* buffers : {&instruction.inputs, &instruction.outputs, &instruction.waits}) {
        for (const BufferId buffer : *buffers) {
          const BufferId root = ranges_.root(buffer);
          if (is_sent_[static_cast<std::size_t>(root)]) run.touched[root] = std::ssize(run.executed);
        }
      }
      run.executed.push_back(i);
    }
    return run;
  }

  /// The first instruction at which all these sends are complete, after the last use of their memory: in a task of the
  /// send's micro-batch or, if there is none, of a later one. Empty if there is none at all.
  [[nodiscard]] std::optional<Place> earliest_place(const std::vector<SendInstance>& instances) const {
    const int first = instances.front().micro_batch;
    for (int distance = 0; distance <= std::min(program_.micro_batches / 2, kLongestWait); ++distance) {
      const auto runs = runs_.find(first + distance);
      if (runs == runs_.end()) return std::nullopt;
      for (const auto& [task, first_run] : runs->second) {
        if (const auto index = common_place(task, distance, instances)) return Place{task, *index, distance};
      }
    }
    return std::nullopt;
  }

  /// The first instruction of the task that may wait for the sends `distance` micro-batches before. The last sends, for
  /// which there is no such run, are waited for at the step's end.
  [[nodiscard]] std::optional<std::size_t> common_place(int task, int distance,
                                                        const std::vector<SendInstance>& instances) const {
    std::size_t index = 0;
    for (const SendInstance& send : instances) {
      if (distance > 0 && send.micro_batch + distance >= program_.micro_batches) continue;
      const auto own = first_place(task, distance, send);
      if (!own) return std::nullopt;
      index = std::max(*own, index);
    }
    return always_executed(task, index);
  }

  /// The first instruction of the task's run `distance` micro-batches after `send` that may wait for it.
  [[nodiscard]] std::optional<std::size_t> first_place(int task, int distance, const SendInstance& send) const {
    const auto of_micro_batch = runs_.find(send.micro_batch + distance);
    if (of_micro_batch == runs_.end()) return std::nullopt;
    const auto& runs = of_micro_batch->second;
    const auto run = std::ranges::find_if(runs, [task](const auto& each) { return each.first == task; });
    if (run == runs.end()) return std::nullopt;
    const std::vector<std::size_t>& executed =
        executed_[static_cast<std::size_t>(task)][run->second.is_last ? 1 : 0].executed;
    const std::int64_t after = std::max(send.ordinal + 1, last_touch_.at(send.instance));
    std::size_t begin = 0;
    std::size_t end = executed.size();
    while (begin < end) {
      const std::size_t middle = begin + (end - begin) / 2;
      const std::int64_t ordinal = run->second.begin + static_cast<std::int64_t>(middle);
      if (ordinal >= after && clock_.moment(number_, ordinal) > send.received) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
    return begin < executed.size() ? std::optional(executed[begin]) : std::nullopt;
  }

  /// The first instruction from `index` on that every run of the task executes in every step.
  [[nodiscard]] std::optional<std::size_t> always_executed(int task, std::size_t index) const {
    const std::vector<Instruction>& instructions = program_.tasks[static_cast<std::size_t>(task)].instructions;
    const auto found = std::find_if(
        instructions.begin() + static_cast<std::ptrdiff_t>(index), instructions.end(),
        [](const Instruction& each) { return each.occurrence == Occurrence::always && each.when.is_always(); });
    if (found == instructions.end()) return std::nullopt;
    return static_cast<std::size_t>(found - instructions.begin());
  }

  const Program& program_;
  const StepClock& clock_;
  std::size_t number_;
  std::uint64_t step_;
  const BufferRanges ranges_;
  /// By root buffer, because a wait ends all sends of the memory.
  std::map<BufferId, std::vector<SendInstance>> sends_;
  std::vector<bool> is_sent_;                                  // by root buffer
  std::unordered_map<std::int64_t, std::int64_t> last_touch_;  // by instance of memory that is sent
  /// By task: the runs but for the last, and the last one.
  std::vector<std::array<TaskRun, 2>> executed_;
  std::map<int, std::vector<std::pair<int, Run>>> runs_;  // by micro-batch, in the order of the schedule
};

using Classes = std::pair<int, int>;            // of the sender and of the receiver
using Message = std::pair<std::uint64_t, int>;  // id and micro-batch

/// The messages between two classes, as they are sent and as they are received.
struct Order {
  std::vector<Message> sent;
  std::vector<Message> received;
};

class ChannelMerge {
 public:
  explicit ChannelMerge(std::vector<Program>& programs) : programs_(programs) {}

  void look_at(const StepClock& clock) {
    std::map<Classes, Order> orders;
    for (std::size_t number = 0; number < programs_.size(); ++number) {
      const std::vector<TracedCommunication>& steps = clock.trace(number).steps;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const Instruction& instruction = *steps[i].instruction;
        if (steps[i].awaited || instruction.is<Collective>()) continue;
        const int own = static_cast<int>(number);
        const int peer = clock.peer(number, i);
        const Classes classes = instruction.is<Send>() ? Classes{own, peer} : Classes{peer, own};
        Order& order = orders[classes];
        const Message message{communication_id(instruction), steps[i].at.micro_batch};
        (instruction.is<Send>() ? order.sent : order.received).push_back(message);
        classes_of_[&instruction] = classes;
      }
    }
    for (const auto& [classes, order] : orders) {
      if (order.sent != order.received) apart_.insert(classes);
    }
  }

  void merge() {
    for (Program& program : programs_) {
      for (Task& task : program.tasks) {
        for (Instruction& instruction : task.instructions) {
          const auto classes = classes_of_.find(&instruction);
          if (classes == classes_of_.end() || apart_.contains(classes->second)) continue;
          if (auto* send = instruction.as<Send>()) send->channel = 0;
          if (auto* receive = instruction.as<Receive>()) receive->channel = 0;
        }
      }
    }
  }

 private:
  std::vector<Program>& programs_;
  std::unordered_map<const Instruction*, Classes> classes_of_;
  std::set<Classes> apart_;
};

bool have_sends(const std::vector<Program>& programs) {
  return std::ranges::any_of(programs, [](const Program& program) {
    return has_instruction(program, [](const Instruction& each) { return each.is<Send>(); });
  });
}

/// Adds all of the waits or, if ranks would then wait for each other, those of them with which they do not.
void add_if_the_step_ends(std::vector<Program>& programs, const std::vector<int>& class_of_rank,
                          const std::set<SendWait>& waits) {
  if (waits.empty()) return;
  const std::vector<StepVariant> variants = step_variants(programs).variants;
  const auto ends_with = [&](const std::vector<SendWait>& some) {
    std::vector<SendWait> added;
    std::ranges::copy_if(some, std::back_inserter(added), [&](const SendWait& wait) { return add(programs, wait); });
    const bool ends = std::ranges::all_of(variants, [&](const StepVariant& variant) {
      return StepClock(programs, class_of_rank, variant.step).has_ended();
    });
    if (!ends) std::for_each(added.rbegin(), added.rend(), [&](const SendWait& wait) { remove(programs, wait); });
    return ends;
  };
  if (ends_with({waits.begin(), waits.end()})) return;
  for (const SendWait& wait : waits) static_cast<void>(ends_with({wait}));
}

}  // namespace

void settle_messages(std::vector<Program>& programs, const std::vector<int>& class_of_rank) {
  if (!have_sends(programs)) return;
  const ShortSchedules shorter(programs);
  ChannelMerge channels(programs);
  std::set<SendWait> blocking;
  for (const StepVariant& variant : step_variants(programs).variants) {
    const StepClock clock(programs, class_of_rank, variant.step);
    channels.look_at(clock);
    if (!clock.has_ended()) continue;
    std::vector<SendWait> late;
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const SentMemory::Waits found = SentMemory(programs[i], clock, i, variant.step).run();
      late.insert(late.end(), found.late.begin(), found.late.end());
      blocking.insert(found.blocking.begin(), found.blocking.end());
    }
    for (const SendWait& wait : late) add(programs, wait);
  }
  channels.merge();
  add_if_the_step_ends(programs, class_of_rank, blocking);
}

}  // namespace strata::host

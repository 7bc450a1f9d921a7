#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/instructions.hpp"
#include "compiler/program/step_clock.hpp"
#include "compiler/program/step_variants.hpp"

namespace strata::host {
namespace {

/// Adds waits to the program of one class for one variant of the step.
class SentMemory {
 public:
  SentMemory(Program& program, const StepClock& clock, std::size_t number, std::uint64_t step)
      : program_(program), clock_(clock), number_(number), step_(step), ranges_(program) {}

  void run() {
    find_sends();
    if (sends_.empty()) return;
    find_runs();
    for (const auto& [root, instances] : sends_) {
      if (const auto place = earliest_place(instances)) add_wait(*place, root);
    }
  }

 private:
  /// One run of a send.
  struct SendInstance {
    int micro_batch = -1;
    std::int64_t instance = 0;  ///< of the memory
    std::int64_t ordinal = 0;
    std::int64_t received = 0;
  };
  struct Run {
    std::int64_t begin = 0;  ///< ordinal of the first instruction
    bool is_last = false;
  };
  struct Place {
    int task = 0;
    std::size_t index = 0;
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
      sends_[root].push_back({step.at.micro_batch, instance, step.ordinal, received.value_or(0)});
      last_touch_[instance] = step.ordinal;
    }
    std::erase_if(sends_,
                  [&](const auto& each) { return impossible.contains(each.first) || !open.contains(each.first); });
  }

  /// Finds the runs of all tasks, and the last instruction that uses memory which is sent.
  void find_runs() {
    executed_.resize(program_.tasks.size());
    std::int64_t now = 0;
    for (const TaskInstance& at : program_.schedule) {
      const Task& task = program_.tasks[static_cast<std::size_t>(at.task)];
      std::vector<std::size_t>& executed = executed_[static_cast<std::size_t>(at.task)][at.is_last ? 1 : 0];
      const bool is_first = executed.empty();
      runs_[at.micro_batch].emplace_back(at.task, Run{now, at.is_last});
      for (std::size_t i = 0; i < task.instructions.size(); ++i) {
        const Instruction& instruction = task.instructions[i];
        if (!at.runs(instruction) || !instruction.when.holds(step_)) continue;
        if (is_first) executed.push_back(i);
        for (const auto* buffers : {&instruction.inputs, &instruction.outputs, &instruction.waits}) {
          for (const BufferId buffer : *buffers) {
            const auto touched = last_touch_.find(ranges_.instance(buffer, at.micro_batch));
            if (touched != last_touch_.end()) touched->second = std::max(touched->second, now);
          }
        }
        ++now;
      }
    }
  }

  /// The first instruction at which all these sends are complete, after the last use of its memory. Empty if there
  /// is none in the tasks of the send's micro-batch: the memory is then in use until the step's end.
  [[nodiscard]] std::optional<Place> earliest_place(const std::vector<SendInstance>& instances) const {
    for (const auto& [task, first_run] : runs_.at(instances.front().micro_batch)) {
      std::optional<std::size_t> index = 0;
      for (const SendInstance& send : instances) {
        const auto own = first_place(task, send);
        index = own && index ? std::optional(std::max(*own, *index)) : std::nullopt;
        if (!index) break;
      }
      if (index) index = always_executed(task, *index);
      if (index) return Place{task, *index};
    }
    return std::nullopt;
  }

  /// The first instruction of the task's run for the micro-batch of `send` that may wait for it.
  [[nodiscard]] std::optional<std::size_t> first_place(int task, const SendInstance& send) const {
    const auto& runs = runs_.at(send.micro_batch);
    const auto run = std::find_if(runs.begin(), runs.end(), [task](const auto& each) { return each.first == task; });
    if (run == runs.end()) return std::nullopt;
    const std::vector<std::size_t>& executed = executed_[static_cast<std::size_t>(task)][run->second.is_last ? 1 : 0];
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

  void add_wait(const Place& place, BufferId buffer) {
    std::vector<BufferId>& waits = program_.tasks[static_cast<std::size_t>(place.task)].instructions[place.index].waits;
    if (std::find(waits.begin(), waits.end(), buffer) == waits.end()) waits.push_back(buffer);
  }

  Program& program_;
  const StepClock& clock_;
  std::size_t number_;
  std::uint64_t step_;
  const BufferRanges ranges_;
  /// By root buffer, because a wait ends all sends of the memory.
  std::map<BufferId, std::vector<SendInstance>> sends_;
  std::map<std::int64_t, std::int64_t> last_touch_;  // by instance of memory that is sent
  /// By task: the instructions of a run that is not the last, and of the last run.
  std::vector<std::array<std::vector<std::size_t>, 2>> executed_;
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
  std::map<const Instruction*, Classes> classes_of_;
  std::set<Classes> apart_;
};

bool have_sends(const std::vector<Program>& programs) {
  return std::any_of(programs.begin(), programs.end(), [](const Program& program) {
    return has_instruction(program, [](const Instruction& each) { return each.is<Send>(); });
  });
}

}  // namespace

void release_sent_memory(std::vector<Program>& programs, const std::vector<int>& class_of_rank) {
  if (!have_sends(programs)) return;
  for (const StepVariant& variant : step_variants(programs).variants) {
    const StepClock clock(programs, class_of_rank, variant.step);
    if (!clock.has_ended()) continue;
    for (std::size_t i = 0; i < programs.size(); ++i) SentMemory(programs[i], clock, i, variant.step).run();
  }
}

void merge_channels(std::vector<Program>& programs, const std::vector<int>& class_of_rank) {
  if (!have_sends(programs)) return;
  ChannelMerge merge(programs);
  for (const StepVariant& variant : step_variants(programs).variants) {
    merge.look_at(StepClock(programs, class_of_rank, variant.step));
  }
  merge.merge();
}

}  // namespace strata::host

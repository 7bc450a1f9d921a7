#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/program/step_clock.hpp"
#include "compiler/program/step_variants.hpp"

namespace strata::host {
namespace {

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
        if (steps[i].awaited || !is_message(instruction)) continue;
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
  static bool is_message(const Instruction& instruction) { return instruction.is<Send>() || instruction.is<Receive>(); }

  std::vector<Program>& programs_;
  std::map<const Instruction*, Classes> classes_of_;
  std::set<Classes> apart_;
};

}  // namespace

void merge_channels(std::vector<Program>& programs, const std::vector<int>& class_of_rank) {
  std::vector<const Program*> all;
  for (const Program& program : programs) all.push_back(&program);
  ChannelMerge merge(programs);
  for (const StepVariant& variant : step_variants(all).variants) {
    merge.look_at(StepClock(programs, class_of_rank, variant.step));
  }
  merge.merge();
}

}  // namespace strata::host

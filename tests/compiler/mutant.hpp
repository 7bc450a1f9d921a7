#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "random_programs.hpp"

/// \file
/// One rank's program of a matching set is changed in one place. The checks must refuse it, for the right reason.

namespace strata::host::test {

/// Positions of the tasks that StageMaker makes.
inline constexpr int kForward = 1;
inline constexpr int kBackward = 2;
inline constexpr int kEpilogue = 3;

/// A program of random ranks to change. If a function finds nothing to change, the mutation is void.
class Mutant {
 public:
  Mutant(Program program, std::uint32_t seed) : program(std::move(program)), sketch(this->program), random(seed) {}

  using Filter = std::function<bool(const Instruction&)>;

  std::vector<Instruction>& instructions(int task) {
    return program.tasks[static_cast<std::size_t>(task)].instructions;
  }

  /// A random instruction that `filter` accepts.
  std::vector<Instruction>::iterator find(int task, const Filter& filter) {
    auto& all = instructions(task);
    std::vector<std::ptrdiff_t> found;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (filter(all[i])) found.push_back(static_cast<std::ptrdiff_t>(i));
    }
    applied = !found.empty();
    return applied ? all.begin() + found[pick(random, found.size())] : all.end();
  }

  /// Changes one such instruction.
  void change(int task, const Filter& filter, const std::function<void(Instruction&)>& edit) {
    const auto found = find(task, filter);
    if (applied) edit(*found);
  }

  /// Inserts an instruction. Its workspace becomes 0 bytes, which the device would have reported.
  void insert_before(std::vector<Instruction>::iterator at, Instruction instruction) {
    if (auto* compute = instruction.as<Compute>()) compute->workspace_bytes = 0;
    for (Task& task : program.tasks) {
      if (&*at >= task.instructions.data() && &*at < task.instructions.data() + task.instructions.size()) {
        task.instructions.insert(at, std::move(instruction));
        return;
      }
    }
  }

  [[nodiscard]] BufferId buffer(const std::string& name) const {
    return std::find_if(program.buffers.begin(), program.buffers.end(),
                        [&](const Buffer& each) { return each.name == name; })
        ->id;
  }

  /// A flat view of the first half of `id`.
  BufferId flat_half(BufferId id) {
    const BufferId half = sketch.view("half", id, 0, program.buffer(id).elements() / 2);
    program.buffers.back().dims.clear();
    return half;
  }

  Program program;
  ProgramSketch sketch;
  std::mt19937 random;
  bool applied = true;
};

template <class Work>
bool is(const Instruction& each) {
  return each.is<Work>();
}
inline auto with_id(std::uint64_t id) {
  return [id](const Instruction& each) { return each.is<Collective>() && communication_id(each) == id; };
}
inline bool is_in_place(const Instruction& each) { return each.is<Collective>() && each.inputs == each.outputs; }
inline bool is_message(const Instruction& each) { return each.is<Send>() || each.is<Receive>(); }
inline auto computes(const std::string& name) {
  return [name](const Instruction& each) { return each.is<Compute>() && each.name == name; };
}
inline bool has_workspace(const Instruction& each) { return each.workspace() != -1; }
inline bool is_in_last_run(const Instruction& each) { return each.occurrence == Occurrence::last; }
inline auto transfers_to_device(const Mutant& mutant) {
  return [&mutant](const Instruction& each) {
    return each.is<Transfer>() && mutant.program.buffer(each.outputs[0]).place == MemoryPlace::device;
  };
}
inline int forward_or_backward(Mutant& mutant) { return pick(mutant.random, 2) == 0 ? kForward : kBackward; }

inline Compute& compute(Instruction& instruction) { return *instruction.as<Compute>(); }
inline Collective& collective(Instruction& instruction) { return *instruction.as<Collective>(); }
inline Peer& peer(Instruction& message) {
  auto* send = message.as<Send>();
  return send != nullptr ? send->to : message.as<Receive>()->from;
}
/// A run of the backward task for `micro_batch`.
inline TaskInstance& backward(Mutant& mutant, int micro_batch) {
  auto& schedule = mutant.program.schedule;
  return *std::find_if(schedule.begin(), schedule.end(),
                       [=](const TaskInstance& at) { return at.task == kBackward && at.micro_batch == micro_batch; });
}

/// One change, and the fault that the checks must find.
struct Mutation {
  const char* name;
  /// A regular expression that the message must contain.
  const char* expected;
  std::function<void(Mutant&)> apply;
};

inline void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

inline std::string mutation_name(const ::testing::TestParamInfo<Mutation>& mutation) { return mutation.param.name; }

/// Applies the mutation to one rank of many random programs; the checks must refuse every one that it changes.
void expect_refused(const Mutation& mutation);

}  // namespace strata::host::test

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "compiler/check/program_check.hpp"
#include "random_programs.hpp"
#include "strata/error.hpp"

/// \file
/// One rank's program of a set that matches is changed in one place: the checks must refuse it, for the right reason.

namespace strata::host::test {
namespace {

using ::testing::ContainsRegex;

constexpr int kForward = 1;
constexpr int kBackward = 2;
constexpr int kEpilogue = 3;

/// A program to change; functions that find nothing to change make the mutation void.
class Mutant {
 public:
  Mutant(Program program, std::uint32_t seed) : program(std::move(program)), sketch(this->program), random(seed) {}

  using Filter = std::function<bool(const Instruction&)>;

  std::vector<Instruction>& instructions(int task) {
    return program.tasks[static_cast<std::size_t>(task)].instructions;
  }

  /// A random instruction that `filter` likes.
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

  void insert_before(std::vector<Instruction>::iterator at, Instruction instruction) {
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

auto of_kind(InstructionKind kind) {
  return [kind](const Instruction& each) { return each.kind == kind; };
}
auto with_id(std::uint64_t id) {
  return [id](const Instruction& each) { return each.kind == InstructionKind::collective && each.id == id; };
}
bool is_in_place(const Instruction& each) {
  return each.kind == InstructionKind::collective && each.inputs == each.outputs;
}
bool is_message(const Instruction& each) {
  return each.kind == InstructionKind::send || each.kind == InstructionKind::receive;
}
auto computes(const std::string& name) {
  return [name](const Instruction& each) { return each.kind == InstructionKind::compute && each.name == name; };
}
auto transfers_to_device(const Mutant& mutant) {
  return [&mutant](const Instruction& each) {
    return each.kind == InstructionKind::transfer &&
           mutant.program.buffer(each.outputs[0]).place == MemoryPlace::device;
  };
}
int forward_or_backward(Mutant& mutant) { return pick(mutant.random, 2) == 0 ? kForward : kBackward; }

struct Mutation {
  const char* name;
  /// What the message must contain, as an expression.
  const char* expected;
  std::function<void(Mutant&)> apply;
};

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

const Mutation kCommunicationMutations[] = {
    {"drop_collective", "differ in id|deadlock",
     [](Mutant& m) {
       const int task = pick(m.random, 2) == 0 ? kForward : kEpilogue;
       const auto at = m.find(task, is_in_place);
       if (m.applied) m.instructions(task).erase(at);
     }},
    {"drop_send", "differ in id|deadlock",
     [](Mutant& m) {
       const int task = forward_or_backward(m);
       const auto at = m.find(task, of_kind(InstructionKind::send));
       if (m.applied) m.instructions(task).erase(at);
     }},
    {"drop_receive", "before it was written",
     [](Mutant& m) {
       const int task = forward_or_backward(m);
       const auto at = m.find(task, of_kind(InstructionKind::receive));
       if (m.applied) m.instructions(task).erase(at);
     }},
    {"repeat_collective", "names another communication",
     [](Mutant& m) {
       const auto at = m.find(kEpilogue, is_in_place);
       m.insert_before(at, Instruction(*at));
     }},
    {"repeat_collective_with_another_id", "differ in id|deadlock",
     [](Mutant& m) {
       const auto at = m.find(kEpilogue, is_in_place);
       Instruction again = *at;
       again.id = 77;
       m.insert_before(at, std::move(again));
     }},
    {"repeat_send", "never receives|differ in|deadlock",
     [](Mutant& m) {
       const auto at = m.find(forward_or_backward(m), of_kind(InstructionKind::send));
       if (!m.applied) return;
       Instruction again = *at;
       again.id = 77;
       m.insert_before(at, std::move(again));
     }},
    {"swap_collectives", "differ in id: [45] and [45]",
     [](Mutant& m) {
       const auto norm = m.find(kEpilogue, with_id(4));
       std::swap(*norm, *m.find(kEpilogue, with_id(5)));
     }},
    {"swap_ids_of_equal_collectives", "differ in id: [45] and [45]",
     [](Mutant& m) {
       const auto norm = m.find(kEpilogue, with_id(4));
       std::swap(norm->id, m.find(kEpilogue, with_id(5))->id);
     }},
    {"resize_collective", "differ in input elements: .*; output elements",
     [](Mutant& m) {
       m.change(kEpilogue, with_id(1),
                [&](Instruction& each) { each.inputs = each.outputs = {m.flat_half(each.inputs[0])}; });
     }},
    {"retype_collective", "differ in type: f(64|32) and f(64|32)",
     [](Mutant& m) {
       m.change(kEpilogue, with_id(3), [&](Instruction& each) {
         m.program.buffers[static_cast<std::size_t>(each.inputs[0])].dtype = DType::f32;
       });
     }},
    {"other_group", "differ in|deadlock",
     [](Mutant& m) { m.change(kEpilogue, with_id(3), [](Instruction& each) { each.axes = {"dp"}; }); }},
    {"larger_group", "differ in|deadlock",
     [](Mutant& m) { m.change(kEpilogue, with_id(1), [](Instruction& each) {
                       each.axes = {"dp", "tp"};
                     }); }},
    {"other_root", "differ in root: [01] and [01]",
     [](Mutant& m) {
       m.change(0, of_kind(InstructionKind::collective), [](Instruction& each) { each.peer = 1 - each.peer; });
     }},
    {"other_reduction", "differ in reduction: (max and sum|sum and max)",
     [](Mutant& m) { m.change(kEpilogue, with_id(1), [](Instruction& each) { each.reduction = Reduction::max; }); }},
    {"other_id", "differ in id",
     [](Mutant& m) { m.change(kEpilogue, with_id(1), [](Instruction& each) { each.id = 99; }); }},
    {"other_kind", "differ in kind: ",
     [](Mutant& m) {
       m.change(kEpilogue, with_id(1), [](Instruction& each) { each.collective = CollectiveKind::broadcast; });
     }},
    {"wrong_micro_batch", "differ in micro-batch|before it was written",
     [](Mutant& m) {
       auto& schedule = m.program.schedule;
       const auto is = [](int micro_batch) {
         return [=](const TaskInstance& at) { return at.task == kForward && at.micro_batch == micro_batch; };
       };
       std::swap(*std::find_if(schedule.begin(), schedule.end(), is(0)),
                 *std::find_if(schedule.begin(), schedule.end(), is(1)));
     }},
    {"send_becomes_receive", "differ in|deadlock|never receives",
     [](Mutant& m) {
       m.change(forward_or_backward(m), of_kind(InstructionKind::send), [](Instruction& each) {
         each.kind = InstructionKind::receive;
         std::swap(each.inputs, each.outputs);
       });
     }},
    {"receive_becomes_send", "before it was written",
     [](Mutant& m) {
       m.change(forward_or_backward(m), of_kind(InstructionKind::receive), [](Instruction& each) {
         each.kind = InstructionKind::send;
         std::swap(each.inputs, each.outputs);
       });
     }},
    {"other_peer", "differ in|deadlock|never receives|with itself",
     [](Mutant& m) {
       m.change(forward_or_backward(m), is_message, [](Instruction& each) { each.peer = (each.peer + 1) % 3; });
     }},
    {"other_message_axis", "differ in|deadlock|never receives|with itself",
     [](Mutant& m) {
       m.change(forward_or_backward(m), is_message, [](Instruction& each) {
         each.axes = {"dp"};
         each.peer %= 2;
       });
     }},
    {"resize_message", "differ in elements: ",
     [](Mutant& m) {
       m.change(forward_or_backward(m), of_kind(InstructionKind::send),
                [&](Instruction& each) { each.inputs = {m.flat_half(each.inputs[0])}; });
     }},
    {"retype_message", "differ in type: f16 and f32",
     [](Mutant& m) {
       const auto at = m.find(forward_or_backward(m), of_kind(InstructionKind::send));
       if (!m.applied) return;
       const BufferId narrow = m.sketch.buffer("narrow", m.program.buffer(at->inputs[0]).elements());
       m.program.buffers.back().dtype = DType::f16;
       at->inputs = {narrow};
       m.insert_before(at, m.sketch.load("narrow", narrow));
     }},
    {"drop_last_backward", "differ in|deadlock",
     [](Mutant& m) {
       auto& schedule = m.program.schedule;
       schedule.erase(schedule.end() - 2);
     }},
    {"other_mesh_order", "is for another mesh",
     [](Mutant& m) {
       m.program.mesh = Mesh({{"dp", 2}, {"pp", 3}, {"tp", 2}});
     }},
};

const Mutation kProgramMutations[] = {
    {"missing_wait", "without waiting for the communication",
     [](Mutant& m) {
       for (const TaskInstance& at : m.program.schedule) {
         for (Instruction& each : m.instructions(at.task)) {
           if (each.waits.empty()) continue;
           each.waits.clear();
           return;
         }
       }
       m.applied = false;
     }},
    {"missing_wait_for_transfer", "reads %[0-9]+ 'first staged' without waiting for the communication or transfer",
     [](Mutant& m) { m.change(kEpilogue, computes("adamw_update"), [](Instruction& each) { each.waits.clear(); }); }},
    {"drop_transfer_to_device", "reads %[0-9]+ '(first|second) staged' before it was written",
     [](Mutant& m) { m.instructions(kEpilogue).erase(m.find(kEpilogue, transfers_to_device(m))); }},
    {"op_on_memory_outside", "uses %[0-9]+ 'second' in (host|file) memory; only a transfer may",
     [](Mutant& m) {
       const BufferId outside = m.buffer("second");
       m.change(kEpilogue, computes("adamw_update"), [=](Instruction& each) { each.outputs[2] = outside; });
     }},
    {"transfer_within_the_device", "exactly one of them must be outside of device memory",
     [](Mutant& m) {
       const BufferId gradients = m.buffer("gradients");
       m.change(kEpilogue, transfers_to_device(m), [=](Instruction& each) { each.inputs = {gradients}; });
     }},
    {"transfer_beside_the_device", "exactly one of them must be outside of device memory",
     [](Mutant& m) {
       const BufferId outside = m.buffer("first");
       m.change(kEpilogue, transfers_to_device(m), [=](Instruction& each) { each.outputs = {outside}; });
     }},
    {"transfer_of_a_part", "moves [0-9]+ elements of %[0-9]+ '(first|second)' to [0-9]+ of %[0-9]+ 'half'",
     [](Mutant& m) {
       m.change(kEpilogue, transfers_to_device(m),
                [&](Instruction& each) { each.outputs = {m.flat_half(each.outputs[0])}; });
     }},
    {"memory_outside_is_forgotten", "'second' in (host|file) memory is not persistent",
     [](Mutant& m) { m.program.buffers[static_cast<std::size_t>(m.buffer("second"))].persistent = false; }},
    {"view_in_another_place", "one is in device memory, the other in (host|file) memory",
     [](Mutant& m) {
       m.sketch.view("part", m.buffer("first"), 0, 8);
       m.program.buffers.back().place = MemoryPlace::device;
     }},
    {"report_outside", "report 'x' reads %[0-9]+ 'first', which is not in device memory",
     [](Mutant& m) { m.program.reports["x"] = m.buffer("first"); }},
    {"read_before_write", "reads %[0-9]+ 'y' before it was written",
     [](Mutant& m) { m.instructions(kForward).erase(m.find(kForward, computes("y"))); }},
    {"overwritten_view", "reads %[0-9]+ 'x', which was overwritten by %[0-9]+ 'thief'",
     [](Mutant& m) {
       const auto at = m.find(kForward, computes("y"));
       const BufferId x = at->inputs[0];
       const BufferId thief = m.sketch.view("thief", x, 0, m.program.buffer(x).elements());
       Instruction steal = m.sketch.op("unary", "steal", {x}, thief);
       steal.waits = {x};
       m.insert_before(at, std::move(steal));
     }},
    {"partly_overwritten_view", "reads %[0-9]+ 'x', which was overwritten by %[0-9]+ 'thief'",
     [](Mutant& m) {
       const auto at = m.find(kForward, computes("y"));
       const BufferId thief = m.sketch.view("thief", at->inputs[0], 7, 9);
       Instruction steal = m.sketch.load("steal", thief);
       steal.waits = {at->inputs[0]};
       m.insert_before(at, std::move(steal));
     }},
    {"written_during_communication", "writes %[0-9]+ 'gradients' without waiting",
     [](Mutant& m) {
       const auto at = m.find(kEpilogue, with_id(2));
       m.insert_before(at, m.sketch.program_op("fill_zero", {}, {m.find(kEpilogue, with_id(1))->inputs[0]}));
     }},
    {"backward_before_forward", "before it was written",
     [](Mutant& m) {
       auto& schedule = m.program.schedule;
       const auto forward =
           std::find_if(schedule.begin(), schedule.end(), [](const TaskInstance& at) { return at.task == kForward; });
       std::swap(*forward, *std::find_if(schedule.begin(), schedule.end(), [&](const TaskInstance& at) {
         return at.task == kBackward && at.micro_batch == forward->micro_batch;
       }));
     }},
    {"accumulate_onto_nothing", "before it was written",
     [](Mutant& m) {
       m.change(
           kBackward, [](const Instruction& each) { return each.accumulate; },
           [&](Instruction& each) {
             each.outputs = {
                 m.sketch.flat("nothing", BufferKind::gradient, m.program.buffer(each.inputs[0]).elements())};
           });
     }},
    {"repeated_id", "id 4 names another communication",
     [](Mutant& m) { m.change(kEpilogue, with_id(5), [](Instruction& each) { each.id = 4; }); }},
    {"unknown_buffer", "buffer %9999 is not there",
     [](Mutant& m) { m.change(kForward, computes("y"), [](Instruction& each) { each.inputs[0] = 9999; }); }},
    {"unknown_op", "there is no such op",
     [](Mutant& m) { m.change(kForward, computes("y"), [](Instruction& each) { each.op = "mixx"; }); }},
    {"unknown_axis", "the mesh has no axis 'ep'",
     [](Mutant& m) { m.change(kEpilogue, with_id(1), [](Instruction& each) { each.axes = {"ep"}; }); }},
    {"no_axis", "names no mesh axis",
     [](Mutant& m) { m.change(kEpilogue, with_id(1), [](Instruction& each) { each.axes.clear(); }); }},
    {"axis_twice", "names axis 'dp' twice",
     [](Mutant& m) { m.change(kEpilogue, with_id(1), [](Instruction& each) {
                       each.axes = {"dp", "dp"};
                     }); }},
    {"root_outside_of_group", "root 7 is not in a group of 2",
     [](Mutant& m) { m.change(0, of_kind(InstructionKind::collective), [](Instruction& each) { each.peer = 7; }); }},
    {"peer_outside_of_axis", "peer 3 is not on axis 'pp' of 3",
     [](Mutant& m) { m.change(forward_or_backward(m), is_message, [](Instruction& each) { each.peer = 3; }); }},
    {"view_outside_of_base", "covers elements",
     [](Mutant& m) { m.program.buffers[static_cast<std::size_t>(m.program.parameters[0].value)].offset = 1; }},
    {"view_of_itself", "is a view of itself",
     [](Mutant& m) {
       Buffer& root = m.program.buffers[static_cast<std::size_t>(m.program.root(m.program.parameters[0].value))];
       root.base = root.id;
     }},
    {"parameter_is_forgotten", "is not persistent",
     [](Mutant& m) {
       const BufferId value = m.program.parameters[0].value;
       m.program.buffers[static_cast<std::size_t>(value)].persistent = false;
       m.program.buffers[static_cast<std::size_t>(m.program.root(value))].persistent = false;
     }},
    {"parameter_of_other_size", "parameter 'weight' has",
     [](Mutant& m) { m.program.parameters[0].dims[0].global_size *= 2; }},
    {"report_of_nothing", "which is never written",
     [](Mutant& m) { m.program.reports["x"] = m.sketch.buffer("never", 8); }},
    {"workspace_is_a_value", "workspace .* is a buffer of another kind",
     [](Mutant& m) { m.change(kForward, computes("y"), [](Instruction& each) { each.workspace = each.outputs[0]; }); }},
    {"missing_output", "lacks output 0",
     [](Mutant& m) {
       m.change(kForward, computes("y"), [](Instruction& each) {
         each.outputs.clear();
         each.result_dims.clear();
       });
     }},
    {"wrong_output_type", "the op gives",
     [](Mutant& m) {
       m.change(kForward, computes("y"), [&](Instruction& each) {
         m.program.buffers[static_cast<std::size_t>(each.outputs[0])].dtype = DType::f64;
       });
     }},
    {"wrong_shape", "on a rank",
     [](Mutant& m) {
       m.change(kForward, computes("y"), [](Instruction& each) { each.iteration[0].global_size += 1; });
     }},
    {"outputs_overlap", "outputs .* overlap",
     [](Mutant& m) {
       m.change(kEpilogue, computes("adamw_update"), [](Instruction& each) { each.outputs[1] = each.outputs[2]; });
     }},
    {"micro_batch_outside", "there are 3", [](Mutant& m) { m.program.schedule[1].micro_batch = 3; }},
    {"epilogue_of_a_micro_batch", "it belongs to none", [](Mutant& m) { m.program.schedule.back().micro_batch = 0; }},
    {"task_twice", "twice", [](Mutant& m) { m.program.schedule.push_back(m.program.schedule.back()); }},
    {"unknown_task", "runs task 9, which is not there", [](Mutant& m) { m.program.schedule.back().task = 9; }},
};

std::string first_fault(const RandomRanks& random, int rank, const Program& mutant) {
  try {
    verify(mutant, test_ops(), "the mutation");
  } catch (const VerificationError& error) {
    return error.what();
  }
  return find_communication_fault(random.ranks(rank, &mutant), {}).value_or("");
}

class Refused : public ::testing::TestWithParam<Mutation> {};

TEST_P(Refused, OnEveryRankWhereItApplies) {
  int applied = 0;
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    const RandomRanks random = make_random_ranks(seed);
    const int rank = static_cast<int>(seed) % random.mesh.rank_count();
    Mutant mutant(random.stages[static_cast<std::size_t>(random.stage_of(rank))], seed);
    GetParam().apply(mutant);
    if (!mutant.applied) continue;
    ++applied;
    EXPECT_THAT(first_fault(random, rank, mutant.program), ContainsRegex(GetParam().expected)) << "seed " << seed;
  }
  EXPECT_GE(applied, 6);
}

std::string mutation_name(const ::testing::TestParamInfo<Mutation>& mutation) { return mutation.param.name; }

INSTANTIATE_TEST_SUITE_P(Communication, Refused, ::testing::ValuesIn(kCommunicationMutations), mutation_name);
INSTANTIATE_TEST_SUITE_P(OneProgram, Refused, ::testing::ValuesIn(kProgramMutations), mutation_name);

}  // namespace
}  // namespace strata::host::test

#include "mutant.hpp"

/// \file
/// The checks refuse programs that are wrong by themselves.

namespace strata::host::test {
namespace {

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
       m.insert_before(at, m.sketch.flat_op("fill_zero", {}, {m.find(kEpilogue, with_id(1))->inputs[0]}));
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
           kBackward, [](const Instruction& each) { return each.is<Compute>() && each.as<Compute>()->accumulate; },
           [&](Instruction& each) {
             each.outputs = {
                 m.sketch.flat("nothing", BufferKind::gradient, m.program.buffer(each.inputs[0]).elements())};
           });
     }},
    {"repeated_id", "id 4 names another communication",
     [](Mutant& m) { m.change(kEpilogue, with_id(5), [](Instruction& each) { collective(each).id = 4; }); }},
    {"unknown_buffer", "buffer %9999, which is not there",
     [](Mutant& m) { m.change(kForward, computes("y"), [](Instruction& each) { each.inputs[0] = 9999; }); }},
    {"unknown_op", "there is no such op",
     [](Mutant& m) { m.change(kForward, computes("y"), [](Instruction& each) { compute(each).op = "mixx"; }); }},
    {"unknown_axis", "the mesh has no axis 'ep'",
     [](Mutant& m) { m.change(kEpilogue, with_id(1), [](Instruction& each) { collective(each).axes = {"ep"}; }); }},
    {"no_axis", "names no mesh axis",
     [](Mutant& m) { m.change(kEpilogue, with_id(1), [](Instruction& each) { collective(each).axes.clear(); }); }},
    {"axis_twice", "names axis 'dp' twice",
     [](Mutant& m) {
       m.change(kEpilogue, with_id(1), [](Instruction& each) { collective(each).axes = {"dp", "dp"}; });
     }},
    {"root_outside_of_group", "root 7 is not in a group of 2",
     [](Mutant& m) { m.change(0, is<Collective>, [](Instruction& each) { collective(each).root = 7; }); }},
    {"peer_outside_of_axis", "peer 3 is not on axis 'pp' of 3",
     [](Mutant& m) {
       m.change(forward_or_backward(m), is_message, [](Instruction& each) { peer(each).coordinate = 3; });
     }},
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
     [](Mutant& m) {
       m.change(kForward, computes("y"), [](Instruction& each) { compute(each).workspace = each.outputs[0]; });
     }},
    {"not_offered_to_the_device", "was not offered to the device",
     [](Mutant& m) {
       m.change(kForward, computes("y"), [](Instruction& each) { compute(each).workspace_bytes.reset(); });
     }},
    {"flat_op_not_offered_to_the_device", "fill_zero.*was not offered to the device",
     [](Mutant& m) {
       m.change(0, computes("fill_zero"), [](Instruction& each) { compute(each).workspace_bytes.reset(); });
     }},
    {"workspace_too_small", "has a workspace of 1200 bytes; its kernel needs 1201",
     [](Mutant& m) { m.change(kForward, has_workspace, [](Instruction& each) { ++*compute(each).workspace_bytes; }); }},
    {"no_workspace", "has a workspace of 0 bytes; its kernel needs 1200",
     [](Mutant& m) { m.change(kForward, has_workspace, [](Instruction& each) { compute(each).workspace = -1; }); }},
    {"missing_output", "lacks output 0",
     [](Mutant& m) {
       m.change(kForward, computes("y"), [](Instruction& each) {
         each.outputs.clear();
         compute(each).result_dims.clear();
       });
     }},
    {"missing_operand_of_a_flat_op", "has 1 inputs and 3 outputs, not 2 and 3",
     [](Mutant& m) {
       m.change(kEpilogue, computes("adamw_update"), [](Instruction& each) { each.inputs.pop_back(); });
     }},
    {"missing_state_of_an_update", "has 2 inputs and 2 outputs, not 2 and 3",
     [](Mutant& m) {
       m.change(kEpilogue, computes("adamw_update"), [](Instruction& each) { each.outputs.pop_back(); });
     }},
    {"state_of_other_size", "output %[0-9]+ 'half' has [0-9]+ elements, not [0-9]+",
     [](Mutant& m) {
       m.change(kEpilogue, computes("adamw_update"),
                [&](Instruction& each) { each.outputs[1] = m.flat_half(each.outputs[1]); });
     }},
    {"scalar_of_other_size", "output %[0-9]+ 'count' has 2 elements, not 1",
     [](Mutant& m) {
       m.change(kEpilogue, computes("sum_of_squares"), [&](Instruction& each) {
         each.outputs[0] = m.buffer("count");
         m.program.buffers[static_cast<std::size_t>(each.outputs[0])].shape = {2};
       });
     }},
    {"op_of_graphs_without_dimensions", "names no dimensions",
     [](Mutant& m) {
       m.change(kForward, computes("y"), [](Instruction& each) {
         compute(each).operand_dims.clear();
         compute(each).result_dims.clear();
       });
     }},
    {"load_of_other_size", "its dimensions .* on a rank",
     [](Mutant& m) {
       m.change(kForward, is<LoadInput>, [](Instruction& each) { ++each.as<LoadInput>()->dims[0].global_size; });
     }},
    {"message_with_an_output", "has 1 inputs and 1 outputs, not 1 and 0",
     [](Mutant& m) {
       m.change(forward_or_backward(m), is<Send>, [](Instruction& each) { each.outputs = each.inputs; });
     }},
    {"wrong_output_type", "the op gives",
     [](Mutant& m) {
       m.change(kForward, computes("y"), [&](Instruction& each) {
         m.program.buffers[static_cast<std::size_t>(each.outputs[0])].dtype = DType::f64;
       });
     }},
    {"wrong_shape", "on a rank",
     [](Mutant& m) {
       m.change(kForward, computes("y"), [](Instruction& each) { compute(each).iteration[0].global_size += 1; });
     }},
    {"outputs_overlap", "outputs .* overlap",
     [](Mutant& m) {
       m.change(kEpilogue, computes("adamw_update"), [](Instruction& each) { each.outputs[1] = each.outputs[2]; });
     }},
    {"micro_batch_outside", "there are 3", [](Mutant& m) { m.program.schedule[1].micro_batch = 3; }},
    {"epilogue_of_a_micro_batch", "it belongs to none", [](Mutant& m) { m.program.schedule.back().micro_batch = 0; }},
    {"task_twice", "twice", [](Mutant& m) { m.program.schedule.push_back(m.program.schedule.back()); }},
    {"last_run_is_not_marked", "task 'backward' has instructions for its last run, but not exactly its last run",
     [](Mutant& m) { backward(m, m.program.micro_batches - 1).is_last = false; }},
    {"two_last_runs", "task 'backward' has instructions for its last run, but not exactly its last run",
     [](Mutant& m) { backward(m, 0).is_last = true; }},
    {"last_run_is_not_the_last", "task 'backward' has instructions for its last run, but not exactly its last run",
     [](Mutant& m) { std::swap(backward(m, 0).is_last, backward(m, m.program.micro_batches - 1).is_last); }},
    {"last_run_of_an_unmarked_task", "task 'forward' has instructions for its last run, but not exactly its last run",
     [](Mutant& m) {
       for (TaskInstance& at : m.program.schedule) at.is_last = at.is_last && at.task != kForward;
       m.change(kForward, computes("y"), [](Instruction& each) { each.occurrence = Occurrence::last; });
     }},
    {"value_of_the_last_run_only", "before it was written for micro-batch",
     [](Mutant& m) {
       m.change(kForward, computes("y"), [](Instruction& each) { each.occurrence = Occurrence::last; });
     }},
    {"unknown_task", "runs task 9, which is not there", [](Mutant& m) { m.program.schedule.back().task = 9; }},
};

class RefusedProgram : public ::testing::TestWithParam<Mutation> {};

TEST_P(RefusedProgram, OnEveryRankWhereItApplies) { expect_refused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(OneProgram, RefusedProgram, ::testing::ValuesIn(kProgramMutations), mutation_name);

}  // namespace
}  // namespace strata::host::test

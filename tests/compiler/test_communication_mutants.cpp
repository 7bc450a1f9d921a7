#include "mutant.hpp"

/// \file
/// The checks refuse programs that do not match those of the other ranks.

namespace strata::host::test {
namespace {

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
       const auto at = m.find(task, is<Send>);
       if (m.applied) m.instructions(task).erase(at);
     }},
    {"drop_receive", "before it was written",
     [](Mutant& m) {
       const int task = forward_or_backward(m);
       const auto at = m.find(task, is<Receive>);
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
       collective(again).id = 77;
       m.insert_before(at, std::move(again));
     }},
    {"repeat_send", "never receives|differ in|deadlock",
     [](Mutant& m) {
       const auto at = m.find(forward_or_backward(m), is<Send>);
       if (!m.applied) return;
       Instruction again = *at;
       again.as<Send>()->id = 77;
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
       std::swap(collective(*norm).id, collective(*m.find(kEpilogue, with_id(5))).id);
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
     [](Mutant& m) { m.change(kEpilogue, with_id(3), [](Instruction& each) { collective(each).axes = {"dp"}; }); }},
    {"larger_group", "differ in|deadlock",
     [](Mutant& m) {
       m.change(kEpilogue, with_id(1), [](Instruction& each) { collective(each).axes = {"dp", "tp"}; });
     }},
    {"other_root", "differ in root: [01] and [01]",
     [](Mutant& m) {
       m.change(0, is<Collective>, [](Instruction& each) { collective(each).root = 1 - collective(each).root; });
     }},
    {"other_reduction", "differ in reduction: (max and sum|sum and max)",
     [](Mutant& m) {
       m.change(kEpilogue, with_id(1), [](Instruction& each) { collective(each).reduction = Reduction::max; });
     }},
    {"other_id", "differ in id",
     [](Mutant& m) { m.change(kEpilogue, with_id(1), [](Instruction& each) { collective(each).id = 99; }); }},
    {"other_kind", "differ in kind: ",
     [](Mutant& m) {
       m.change(kEpilogue, with_id(1), [](Instruction& each) { collective(each).kind = CollectiveKind::broadcast; });
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
       m.change(forward_or_backward(m), is<Send>, [](Instruction& each) {
         const Send send = *each.as<Send>();
         each.work = Receive{send.to, send.id};
         std::swap(each.inputs, each.outputs);
       });
     }},
    {"receive_becomes_send", "before it was written",
     [](Mutant& m) {
       m.change(forward_or_backward(m), is<Receive>, [](Instruction& each) {
         const Receive receive = *each.as<Receive>();
         each.work = Send{receive.from, receive.id};
         std::swap(each.inputs, each.outputs);
       });
     }},
    {"other_peer", "differ in|deadlock|never receives|with itself",
     [](Mutant& m) {
       m.change(forward_or_backward(m), is_message,
                [](Instruction& each) { peer(each).coordinate = (peer(each).coordinate + 1) % 3; });
     }},
    {"other_message_axis", "differ in|deadlock|never receives|with itself",
     [](Mutant& m) {
       m.change(forward_or_backward(m), is_message, [](Instruction& each) {
         peer(each) = {"dp", peer(each).coordinate % 2};
       });
     }},
    {"resize_message", "differ in elements: ",
     [](Mutant& m) {
       m.change(forward_or_backward(m), is<Send>,
                [&](Instruction& each) { each.inputs = {m.flat_half(each.inputs[0])}; });
     }},
    {"retype_message", "differ in type: f16 and f32",
     [](Mutant& m) {
       const auto at = m.find(forward_or_backward(m), is<Send>);
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
       backward(m, m.program.micro_batches - 2).is_last = true;
     }},
    {"drop_completion", "differ in|deadlock",
     [](Mutant& m) { m.instructions(kBackward).erase(m.find(kBackward, with_id(kCompletionId))); }},
    {"completion_in_every_run", "without waiting for the communication|differ in micro-batch|deadlock",
     [](Mutant& m) {
       m.change(kBackward, is_in_last_run, [](Instruction& each) { each.occurrence = Occurrence::always; });
     }},
    {"other_mesh_order", "is for another mesh",
     [](Mutant& m) {
       m.program.mesh = Mesh({{"dp", 2}, {"pp", 3}, {"tp", 2}});
     }},
};

class RefusedCommunication : public ::testing::TestWithParam<Mutation> {};

TEST_P(RefusedCommunication, OnEveryRankWhereItApplies) { expect_refused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Communication, RefusedCommunication, ::testing::ValuesIn(kCommunicationMutations),
                         mutation_name);

}  // namespace
}  // namespace strata::host::test

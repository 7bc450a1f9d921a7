#include <gmock/gmock.h>

#include <functional>

#include "compiler/check/program_check.hpp"
#include "random_programs.hpp"
#include "strata/error.hpp"

namespace strata::host::test {
namespace {

using ::testing::HasSubstr;

std::string refusal(const Program& program, bool has_device = false) {
  try {
    verify(program, test_ops(), "the test", has_device);
  } catch (const VerificationError& error) {
    return error.what();
  }
  return {};
}

std::string fault(const Mesh& mesh, const std::vector<const Program*>& programs, int capacity = 0) {
  return find_communication_fault({mesh, programs}, {capacity}).value_or("");
}

TEST(Verify, AcceptsRandomPrograms) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const RandomRanks random = make_random_ranks(seed);
    for (const Program& program : random.stages)
      EXPECT_EQ(refusal(program, true), "") << "seed " << seed << '\n' << to_string(program);
    EXPECT_EQ(find_communication_fault(random.ranks(), {}), std::nullopt) << "seed " << seed;
    EXPECT_EQ(find_communication_fault(random.ranks(), {.channel_capacity = 2}), std::nullopt) << "seed " << seed;
  }
}

TEST(Verify, BucketsAreMadeOfTheirViews) {
  TaskSketch test;
  const BufferId bucket = test.sketch.flat("bucket", BufferKind::gradient, 16);
  const BufferId first = test.sketch.view("first", bucket, 0, 8);
  const BufferId second = test.sketch.view("second", bucket, 8, 8);
  test.push(test.sketch.load("first", first));
  test.push(test.sketch.collective(CollectiveKind::all_reduce, 1, "dp", bucket, bucket));
  EXPECT_THAT(refusal(test.program), HasSubstr("reads %0 'bucket' before it was written"));
  test.program.tasks[0].instructions.insert(test.program.tasks[0].instructions.begin(),
                                            test.sketch.load("second", second));
  EXPECT_EQ(refusal(test.program), "");
  Instruction read = test.sketch.op("unary", "reader", {second}, test.sketch.buffer("y", 8));
  test.push(read);
  EXPECT_THAT(refusal(test.program), HasSubstr("without waiting for the communication"));
  test.program.tasks[0].instructions.back().waits = {second};
  EXPECT_EQ(refusal(test.program), "");
}

TEST(Verify, ViewsOfOneBufferOverwriteEachOther) {
  TaskSketch test;
  const BufferId x = test.loaded("x");
  const BufferId y = test.sketch.view("y", x, 0, 8);
  test.push(test.sketch.op("unary", "in place", {x}, y));
  EXPECT_EQ(refusal(test.program), "");
  test.push(test.sketch.op("unary", "late", {x}, test.sketch.buffer("z", 8)));
  EXPECT_THAT(refusal(test.program),
              HasSubstr("instruction 2 unary 'late': reads %0 'x', which was overwritten by %1 'y'"));
}

TEST(Verify, OnlyOpsThatCanWorkInPlace) {
  TaskSketch test;
  const BufferId x = test.loaded("x");
  test.push(test.sketch.op("mix", "in place", {x}, x));
  EXPECT_THAT(refusal(test.program), HasSubstr("may not replace in place"));
}

TEST(Verify, CollectivesFollowEachOtherWithoutWaiting) {
  TaskSketch test;
  const BufferId x = test.loaded("x");
  const BufferId piece = test.sketch.buffer("piece", 4);
  const BufferId whole = test.sketch.buffer("whole", 8);
  test.push(test.sketch.collective(CollectiveKind::reduce_scatter, 1, "dp", x, piece));
  test.push(test.sketch.collective(CollectiveKind::all_gather, 2, "dp", piece, whole));
  Instruction reader = test.sketch.op("mix", "reader", {piece, whole}, test.sketch.buffer("y", 4));
  reader.waits = {whole};  // ends the first too: collectives run in order
  test.push(reader);
  EXPECT_EQ(refusal(test.program), "");
  test.program.tasks[0].instructions.back().waits = {x};
  EXPECT_THAT(refusal(test.program), HasSubstr("reads %2 'whole' without waiting"));
}

TEST(Verify, MessagesEndByTheirOwnWaitOnly) {
  TaskSketch test;
  const BufferId received = test.sketch.buffer("received", 8);
  const BufferId x = test.loaded("x");
  test.push(test.sketch.receive(1, "dp", 1, received));
  test.push(test.sketch.collective(CollectiveKind::all_reduce, 2, "dp", x, x));
  Instruction reader = test.sketch.op("mix", "reader", {received, x}, test.sketch.buffer("y", 8));
  reader.waits = {x};
  test.push(reader);
  EXPECT_THAT(refusal(test.program), HasSubstr("reads %0 'received' without waiting"));
  test.program.tasks[0].instructions.back().waits = {x, received};
  EXPECT_EQ(refusal(test.program), "");
}

TEST(Verify, MicroBatchesHaveTheirOwnBuffers) {
  TaskSketch test;
  test.program.micro_batches = 2;
  test.program.tasks.clear();
  test.sketch.task(Task::Kind::forward);
  test.sketch.task(Task::Kind::backward);
  const BufferId x = test.loaded("x");
  test.program.tasks[1].instructions.push_back(test.sketch.op("unary", "dx", {x}, test.sketch.buffer("dx", 8)));
  test.program.schedule = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(refusal(test.program), "");
  test.program.schedule = {{0, 0}, {1, 1}};
  EXPECT_THAT(refusal(test.program),
              HasSubstr("task 'backward' micro-batch 1, instruction 0 unary 'dx': reads %0 'x' before it was "
                        "written for micro-batch 1"));
}

TEST(Verify, ShardsHaveTheSizeThatTheirDimensionsGive) {
  TaskSketch test;
  const BufferId x = test.loaded("x");
  Instruction unary = test.sketch.op("unary", "u", {x}, test.sketch.buffer("y", 8));
  ShardedDim& dim = unary.as<Compute>()->iteration[0];
  dim.global_size = 16;
  dim.axes = {{"dp", Distribution::block}};
  test.push(unary);
  EXPECT_EQ(refusal(test.program), "");
  test.program.tasks[0].instructions.back().as<Compute>()->iteration[0].global_size = 8;
  EXPECT_THAT(refusal(test.program), HasSubstr("input %0 'x' has shape (8), its dimensions [n8] have (4) on a rank"));
}

TEST(Verify, SizesOfCollectivesFitTheirGroup) {
  struct Row {
    CollectiveKind kind;
    std::int64_t input, output;
    bool fits;
  };
  const Row rows[] = {
      {CollectiveKind::all_reduce, 8, 8, true},     {CollectiveKind::all_reduce, 8, 4, false},
      {CollectiveKind::reduce_scatter, 8, 2, true}, {CollectiveKind::reduce_scatter, 8, 4, false},
      {CollectiveKind::all_gather, 2, 8, true},     {CollectiveKind::all_gather, 2, 4, false},
      {CollectiveKind::all_to_all, 8, 8, true},     {CollectiveKind::all_to_all, 6, 6, false},
      {CollectiveKind::broadcast, 6, 6, true},      {CollectiveKind::broadcast, 6, 5, false},
  };
  for (const Row& row : rows) {
    TaskSketch test(4);
    const BufferId x = test.loaded("x", row.input);
    test.push(test.sketch.collective(row.kind, 1, "dp", x, test.sketch.buffer("y", row.output)));
    EXPECT_EQ(refusal(test.program).empty(), row.fits) << to_string(row.kind) << ' ' << row.input << ' ' << row.output;
  }
}

TEST(Verify, MarksAreOfWholeRowsForEachRank) {
  struct Row {
    CollectiveKind kind;
    std::int64_t input, output, sent, received;
    const char* refusal;
  };
  const Row rows[] = {
      {CollectiveKind::all_gather, 6, 24, 8, 8, ""},
      {CollectiveKind::reduce_scatter, 24, 6, 8, 8, ""},
      {CollectiveKind::all_gather, 6, 24, 8, 12, "marks per row in %1 'sent' of 8 and %2 'received' of 12 elements"},
      {CollectiveKind::all_gather, 6, 24, 6, 6, "of 6 elements, for pieces of 6"},
      {CollectiveKind::reduce_scatter, 24, 6, 16, 16, "of 16 elements, for pieces of 6"},
      {CollectiveKind::all_to_all, 24, 24, 8, 8, "has marks of rows"},
  };
  for (const Row& row : rows) {
    TaskSketch test(4);
    const BufferId x = test.loaded("x", row.input);
    const BufferId sent = test.loaded("sent", row.sent);
    const BufferId received = test.loaded("received", row.received);
    test.push(test.sketch.collective(row.kind, 1, "dp", x, test.sketch.buffer("y", row.output)));
    Instruction& made = test.program.tasks[0].instructions.back();
    made.as<Collective>()->marks = 1;
    EXPECT_THAT(refusal(test.program), HasSubstr("has 1 inputs and 1 outputs, not 3 and 1"));
    made.inputs.insert(made.inputs.end(), {sent, received});
    const std::string text = refusal(test.program);
    EXPECT_TRUE(*row.refusal == '\0' ? text.empty() : text.find(row.refusal) != std::string::npos) << text;
  }
}

TEST(Verify, CopiesDealTheirDimension) {
  TaskSketch test(2);
  const BufferId x = test.loaded("x", 24);
  const Copy copy{Copy::Kind::slice, 2, 4, 3, {"dp", Distribution::block}};
  test.push({.name = "slice", .work = copy, .inputs = {x}, .outputs = {test.sketch.buffer("y", 12)}});
  EXPECT_EQ(refusal(test.program), "");
  test.program.tasks[0].instructions.back().as<Copy>()->kind = Copy::Kind::pack;
  EXPECT_THAT(refusal(test.program), HasSubstr("copies 24 elements to 24; %0 'x' has 24 and %1 'y' has 12"));
}

/// 16-bit values are rounded from an f32 master copy, which follows the values among the update's operands.
TEST(Verify, ShortValuesAreUpdatedByWayOfAMasterInF32) {
  TaskSketch test(1);
  const auto persistent = [&](const std::string& name, DType dtype, std::int64_t elements) {
    const BufferId id = test.sketch.flat(name, BufferKind::optimizer, elements, true);
    test.program.buffers.back().dtype = dtype;
    return id;
  };
  const BufferId values = persistent("values", DType::bf16, 8);
  const BufferId master = persistent("master", DType::f32, 8);
  const BufferId scale = persistent("scale", DType::f64, 1);
  const BufferId gradient = persistent("gradient", DType::f32, 8);
  test.push(test.sketch.flat_op("sgd_update", {gradient, scale}, {values, master}));
  EXPECT_EQ(refusal(test.program), "");
  Instruction& update = test.program.tasks[0].instructions.back();
  update.outputs = {values};
  EXPECT_THAT(refusal(test.program), HasSubstr("has 2 inputs and 1 outputs, not 2 and 2"));
  update.outputs = {values, persistent("narrow", DType::bf16, 8)};
  EXPECT_THAT(refusal(test.program), HasSubstr("the master copy %4 'narrow' of values in bf16 is not in f32"));
  update.outputs = {master, values};
  EXPECT_THAT(refusal(test.program), HasSubstr("has 2 inputs and 2 outputs, not 2 and 1"));
}

/// The fault of two ranks that run the given communications in order.
std::string fault_of_two(const std::function<void(TaskSketch&)>& first, const std::function<void(TaskSketch&)>& second,
                         int capacity = 0) {
  TaskSketch a;
  TaskSketch b;
  first(a);
  second(b);
  EXPECT_EQ(refusal(a.program), "");
  EXPECT_EQ(refusal(b.program), "");
  return fault(a.program.mesh, {&a.program, &b.program}, capacity);
}

auto messages(int peer, const std::vector<int>& sent, const std::vector<int>& received) {
  return [=](TaskSketch& test) {
    for (const int id : sent) {
      test.push(test.sketch.send(static_cast<std::uint64_t>(id), "dp", peer, test.loaded("out")));
    }
    for (const int id : received) {
      test.push(test.sketch.receive(static_cast<std::uint64_t>(id), "dp", peer, test.sketch.buffer("in", 8)));
    }
  };
}

TEST(CommunicationFault, SendsWaitForRoomInTheChannel) {
  for (int count = 1; count <= 4; ++count) {
    std::vector<int> there;
    std::vector<int> back;
    for (int i = 0; i < count; ++i) {
      there.push_back(i);
      back.push_back(100 + i);
    }
    const auto first = messages(1, there, back);
    const auto second = messages(0, back, there);
    EXPECT_EQ(fault_of_two(first, second, count), "");
    EXPECT_EQ(fault_of_two(first, second, 0), "");
    if (count == 1) continue;
    EXPECT_THAT(
        fault_of_two(first, second, count - 1),
        HasSubstr("deadlock: rank 0 is at send 'm" + std::to_string(count - 1) + "' (id " + std::to_string(count - 1) +
                  ", f32, 8 elements, over dp) and waits for rank 1 to receive one of " + std::to_string(count - 1) +
                  " messages in flight"));
  }
}

TEST(CommunicationFault, MessagesArriveInTheOrderInWhichTheyWereSent) {
  EXPECT_THAT(fault_of_two(messages(1, {1, 2}, {}), messages(0, {}, {2, 1})), HasSubstr("they differ in id: 1 and 2"));
  EXPECT_THAT(fault_of_two(messages(1, {1, 2}, {}), messages(0, {}, {1})),
              HasSubstr("rank 1 never receives the message of rank 0: send 'm2'"));
  EXPECT_THAT(
      fault_of_two(messages(1, {1}, {}), messages(0, {}, {1, 2})),
      HasSubstr("rank 1 is at receive 'm2' (id 2, f32, 8 elements, over dp) and waits for a message, but rank 0 has "
                "ended"));
}

TEST(CommunicationFault, ChannelsHaveNoOrderAmongEachOther) {
  const auto in_channels = [](int peer, const std::vector<int>& sent, const std::vector<int>& received) {
    return [=](TaskSketch& test) {
      messages(peer, sent, received)(test);
      for (Instruction& each : test.program.tasks[0].instructions) {
        if (auto* send = each.as<Send>()) send->channel = static_cast<int>(send->id);
        if (auto* receive = each.as<Receive>()) receive->channel = static_cast<int>(receive->id);
      }
    };
  };
  EXPECT_EQ(fault_of_two(in_channels(1, {1, 2}, {}), in_channels(0, {}, {2, 1})), "");
}

/// The wait of rank 0 ends when rank 1 receives, which comes after a message that rank 0 sends after the wait.
TEST(CommunicationFault, AWaitForASendEndsWhenTheMessageIsReceived) {
  const auto sender = [](bool waits) {
    return [waits](TaskSketch& test) {
      const BufferId x = test.loaded("x");
      const BufferId y = test.sketch.buffer("y", 8);
      test.push(test.sketch.send(1, "dp", 1, x));
      Instruction reader = test.sketch.op("unary", "reader", {x}, y);
      if (waits) reader.waits = {x};
      test.push(std::move(reader));
      test.push(test.sketch.send(2, "dp", 1, y));
    };
  };
  const auto receiver = [](const std::vector<int>& order) { return messages(0, {}, order); };
  EXPECT_EQ(fault_of_two(sender(true), receiver({1, 2})), "");
  EXPECT_THAT(fault_of_two(sender(false), receiver({2, 1})), HasSubstr("differ in id"));
  TaskSketch first;
  sender(true)(first);
  TaskSketch second;
  receiver({2, 1})(second);
  EXPECT_THAT(find_communication_fault({first.program.mesh, {&first.program, &second.program}},
                                       {.matches_messages_by_id = true})
                  .value_or(""),
              HasSubstr("deadlock: rank 0 is at unary 'reader' and waits for rank 1 to receive its message send 'm1'"));
  first.program.tasks[0].instructions[2].waits = {};
  EXPECT_EQ(find_communication_fault({first.program.mesh, {&first.program, &second.program}},
                                     {.matches_messages_by_id = true}),
            std::nullopt);
}

TEST(CommunicationFault, NoRankSendsToItself) {
  EXPECT_THAT(fault_of_two(messages(0, {1}, {}), messages(0, {}, {1})),
              HasSubstr("rank 0 exchanges messages with itself"));
}

/// Collectives run one after the other on each rank. If two ranks order two groups differently, the program deadlocks.
TEST(CommunicationFault, GroupsInDifferentOrderDeadlock) {
  const Mesh mesh({{"dp", 2}, {"tp", 2}});
  const auto rank = [&](bool data_first) {
    TaskSketch test;
    test.program.mesh = mesh;
    const BufferId x = test.loaded("x");
    const BufferId y = test.loaded("y");
    for (const bool data : {data_first, !data_first}) {
      const BufferId id = data ? x : y;
      test.push(test.sketch.collective(CollectiveKind::all_reduce, data ? 1 : 2, data ? "dp" : "tp", id, id));
    }
    return test.program;
  };
  const Program data_first = rank(true);
  const Program tensor_first = rank(false);
  EXPECT_EQ(fault(mesh, {&data_first, &data_first, &data_first, &data_first}), "");
  // Rank 0 reduces with 2 over dp, then with 1 over tp. Rank 1 reduces with 0 over tp first. Ranks 2 and 3 are
  // mirrored.
  EXPECT_THAT(
      fault(mesh, {&data_first, &tensor_first, &tensor_first, &data_first}),
      HasSubstr(
          "deadlock: rank 0 is at all_reduce 'c1' (id 1, sum, f32, 8 elements, over dp) and waits for rank 2, but "
          "rank 2 is at all_reduce 'c2'"));
}

TEST(CommunicationFault, EveryRankHasAProgramForTheMesh) {
  TaskSketch test;
  EXPECT_EQ(fault(test.program.mesh, {&test.program, &test.program}), "");
  EXPECT_THAT(fault(test.program.mesh, {&test.program}), HasSubstr("programs for 1 ranks, the mesh has 2"));
  EXPECT_THAT(fault(test.program.mesh, {&test.program, nullptr}), HasSubstr("rank 1 has no program"));
  const TaskSketch other(4);
  EXPECT_THAT(fault(test.program.mesh, {&test.program, &other.program}), HasSubstr("rank 1 is for another mesh"));
}

TEST(CommunicationFault, NamesAFewOfManyStuckRanks) {
  TaskSketch all(64);
  const BufferId x = all.loaded("x");
  TaskSketch none(64);
  all.push(all.sketch.collective(CollectiveKind::all_reduce, 1, "dp", x, x));
  std::vector<const Program*> programs(64, &all.program);
  programs[5] = &none.program;
  const std::string message = fault(all.program.mesh, programs);
  EXPECT_THAT(message, HasSubstr("waits for rank 5, but rank 5 has ended"));
  EXPECT_THAT(message, HasSubstr("and 55 ranks more"));
}

TEST(CommunicationFault, ScalesToAThousandRanks) {
  const RandomRanks random =
      make_random_ranks(3, {.stages = 8, .data = 16, .tensor = 8, .micro_batches = 40, .steps = 60});
  std::size_t instructions = 0;
  for (const Program* program : random.ranks().programs) {
    for (const TaskInstance& at : program->schedule) {
      const auto& task = program->tasks[static_cast<std::size_t>(at.task)].instructions;
      instructions += static_cast<std::size_t>(std::count_if(task.begin(), task.end(), is_asynchronous));
    }
  }
  EXPECT_GT(instructions, 1'000'000U);
  EXPECT_EQ(random.mesh.rank_count(), 1024);
  EXPECT_EQ(find_communication_fault(random.ranks(), {}), std::nullopt);
}

}  // namespace
}  // namespace strata::host::test

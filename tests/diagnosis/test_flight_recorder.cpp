#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "communicator/host_device.hpp"
#include "diagnosis/record_folder.hpp"
#include "diagnosis/run_diagnosis.hpp"
#include "runtime/rank_threads.hpp"
#include "strata/error.hpp"
#include "world.hpp"

namespace strata::host {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kBucket = "bucket 3";

/// A program of one task with one instruction.
Program one_instruction() {
  Program program;
  Task task{.kind = Task::Kind::backward, .chunk = 0, .name = "backward", .instructions = {}};
  task.instructions.push_back({.name = "h.3.mlp", .work = Compute{.op = "linear"}});
  program.tasks.push_back(task);
  return program;
}

FlightRecorder::Issue all_reduce(std::uint64_t id) {
  return {.kind = "all_reduce", .name = &kBucket, .group = 0, .bytes = 64, .id = id};
}

TEST(FlightRecorder, TellsWhatARankDoes) {
  const Program program = one_instruction();
  FlightRecorder recorder(1, 4);
  const auto does = [&] { return describe(recorder.read()); };
  EXPECT_EQ(does(), "connecting to the other ranks");
  recorder.begin(Activity::preparing);
  recorder.add_group(0, {0, 1, 2, 3});
  EXPECT_EQ(does(), "preparing kernels and groups");
  recorder.begin(Activity::reading, 36);
  EXPECT_EQ(does(), "waiting for the data of step 37");
  const std::uint64_t agreement = recorder.issue({.kind = "all_reduce", .name = &kBucket, .group = 0, .id = 2});
  recorder.begin_wait(agreement);
  EXPECT_EQ(does(), "waiting for all_reduce 'bucket 3' (id 2) of ranks 0-3 (before step 37)");
  recorder.end_wait(agreement, CommunicationState::complete);
  recorder.begin(Activity::training, 37);
  recorder.begin_run();
  recorder.begin(program, {.task = 0, .micro_batch = 2}, 0);
  EXPECT_EQ(does(), "computing linear 'h.3.mlp' (step 37, backward, micro-batch 2)");
  const std::uint64_t sum = recorder.issue(all_reduce(17));
  EXPECT_EQ(does(), "computing linear 'h.3.mlp' (step 37, backward, micro-batch 2)");
  recorder.begin_wait(sum);
  EXPECT_EQ(does(), "waiting for all_reduce 'bucket 3' (id 17) of ranks 0-3 (step 37, backward, micro-batch 2)");
  recorder.end_wait(sum, CommunicationState::enqueued);
  recorder.begin_end();
  EXPECT_EQ(does(), "waiting for all_reduce 'bucket 3' (id 17) of ranks 0-3 (step 37, its end)") << "on the device";
  recorder.complete_enqueued();
  EXPECT_EQ(does(), "waiting for its device (step 37, its end)");
  recorder.end_run();
  recorder.begin(Activity::evaluating, 37);
  recorder.begin(program, {.task = 0, .micro_batch = 0}, 0, 5);
  EXPECT_EQ(does(),
            "computing linear 'h.3.mlp' and 4 more as a graph (evaluation after step 37, backward, micro-batch 0)");
  recorder.begin(Activity::saving, 37);
  EXPECT_EQ(does(), "writing the checkpoint of step 37");
  recorder.begin_wait(recorder.issue({.kind = "receive", .name = &kBucket, .peer = 2, .bytes = 8, .id = 4}));
  EXPECT_EQ(does(), "waiting for receive 'bucket 3' (id 4) from rank 2 (writing the checkpoint of step 37)");
}

TEST(FlightRecorder, KeepsTheLast256CommunicationsAndTheirOrder) {
  FlightRecorder recorder(0, 2);
  recorder.add_group(0, {0, 1});
  for (std::uint64_t id = 1; id <= 300; ++id)
    recorder.end_wait(recorder.issue(all_reduce(id)), CommunicationState::issued);
  const FlightRecord record = recorder.read();
  ASSERT_EQ(record.communications.size(), FlightRecorder::kCommunications);
  EXPECT_EQ(record.communications.front().id, 45U);
  EXPECT_EQ(record.communications.back().id, 300U);
  EXPECT_EQ(record.communications.back().ordinal, 300U);
  EXPECT_THAT(record.communications.back().ranks, ElementsAre(0, 1));
}

TEST(FlightRecorder, CountsRepeatedQuestionsOnceAndNotAsProgress) {
  FlightRecorder recorder(0, 2);
  recorder.add_group(0, {0, 1});
  recorder.begin(Activity::saving, 3);
  const auto ask = [&](std::uint64_t id) {
    recorder.begin(Activity::saving, 3);
    const std::uint64_t communication = recorder.issue(all_reduce(id));
    recorder.begin_wait(communication);
    recorder.end_wait(communication, CommunicationState::complete);
  };
  ask(1);
  ask(2);
  const std::uint64_t moves = recorder.movement().moves;
  for (std::uint64_t id = 3; id <= 1000; ++id) ask(id);
  EXPECT_EQ(recorder.movement().moves, moves);
  const FlightRecord record = recorder.read();
  ASSERT_EQ(record.communications.size(), 1U);
  EXPECT_EQ(record.communications.front().repeats, 1000U);
  EXPECT_EQ(record.communications.front().ordinal, 1000U);
  EXPECT_EQ(record.communications.front().id, 1000U);
}

TEST(FlightRecorder, StaysAsItWasAtTheFailure) {
  FlightRecorder recorder(0, 2);
  recorder.add_group(0, {0, 1});
  const std::uint64_t sum = recorder.issue(all_reduce(1));
  recorder.begin_wait(sum);
  recorder.end_wait(sum, CommunicationState::failed);
  recorder.fail("it took too long", false);
  recorder.fail("another rank failed", true);
  recorder.begin(Activity::ended);
  recorder.issue(all_reduce(2));
  const FlightRecord record = recorder.read();
  EXPECT_EQ(record.error, "it took too long");
  EXPECT_FALSE(record.is_echo);
  EXPECT_EQ(record.communications.size(), 1U);
  EXPECT_EQ(record.awaited, sum);
}

TEST(RecordText, ReadsWhatItWrites) {
  const Program program = one_instruction();
  FlightRecorder recorder(1, 2);
  recorder.add_group(0, {0, 1});
  recorder.begin(Activity::training, 4);
  recorder.begin(program, {.task = 0, .micro_batch = 1}, 0);
  recorder.begin_wait(recorder.issue(all_reduce(~std::uint64_t{0})));
  recorder.issue({.kind = "send", .name = nullptr, .peer = 0, .bytes = 8, .id = 4});
  recorder.fail("a \"quoted\"\nreason \xff", false);
  const std::string text = to_json_text(recorder.read());
  const FlightRecord record = parse_record(text);
  EXPECT_EQ(to_json_text(record), text);
  EXPECT_EQ(record.communications.at(0).id, ~std::uint64_t{0});
}

/// Ranks as threads, one of which never comes to the collective of the others. Reads run beside the ranks.
TEST(Watchdog, NamesWhatStandsStillAndWhatGoesOn) {
  local::LocalWorld world(3, 3600);
  const FlightRecorders recorders(world);
  const Program program = one_instruction();
  std::atomic<bool> is_released{false};
  std::vector<std::string> messages;
  std::thread observer([&] {
    Watchdog watchdog(recorders, 2);
    // A rank also waits when it creates the group. It has no instruction then.
    const auto computes = [&](int rank) { return recorders.of(rank).read().instruction.has_value(); };
    const auto waits = [&](int rank) { return computes(rank) && recorders.of(rank).read().awaited.has_value(); };
    const auto stands = [&] { return waits(0) && computes(1) && waits(2); };
    while (!stands()) std::this_thread::yield();
    for (double now = 10; now < 30; ++now) {
      const Watchdog::Findings found = watchdog.look(now);
      EXPECT_EQ(found.hangs, !found.messages.empty()) << now;
      for (const std::string& each : found.messages) messages.push_back(each);
    }
    is_released = true;
    while (!recorders.of(1).read().communications.empty() && !recorders.of(1).movement().is_over)
      std::this_thread::yield();
  });
  run_rank_threads(
      world, [](int) { return std::make_shared<testing::HostDevice>(); },
      [&](Device&, Communicator& communicator) {
        FlightRecorder& recorder = recorders.of(communicator.rank());
        recorder.begin(Activity::training, 5);
        const int group = communicator.create_group({0, 1, 2});
        recorder.begin(program, {.task = 0, .micro_batch = 0}, 0);
        while (communicator.rank() == 1 && !is_released) std::this_thread::yield();
        double value = 1;
        communicator
            .start({.dtype = DType::f64,
                    .group = group,
                    .input = &value,
                    .output = &value,
                    .elements = 1,
                    .id = 9,
                    .name = &kBucket})
            ->wait();
        EXPECT_EQ(value, 3);
      },
      {}, {&recorders, {}});
  observer.join();
  const std::string one = "rank 1 has been computing linear 'h.3.mlp' (step 5, backward, micro-batch 0) for ";
  const std::string others =
      "ranks 0, 2 have been waiting for all_reduce 'bucket 3' (id 9) of ranks 0-2 (step 5, backward, micro-batch 0) "
      "for ";
  EXPECT_THAT(messages, ElementsAre(one + "2 s", others + "2 s", one + "4 s", others + "4 s", one + "8 s",
                                    others + "8 s", one + "16 s", others + "16 s"));
}

TEST(Watchdog, SaysWhenARankGoesOnAndLooksAwayWhenItIsOver) {
  local::LocalWorld world(2, 3600);
  const FlightRecorders recorders(world);
  Watchdog watchdog(recorders, 2);
  const auto look = [&](double now) { return watchdog.look(now).messages; };
  recorders.of(1).begin(Activity::ended);
  EXPECT_THAT(look(1), IsEmpty());
  recorders.of(0).begin(Activity::restoring);
  EXPECT_THAT(look(2), IsEmpty());
  EXPECT_THAT(look(4), ElementsAre("rank 0 has been initialising or restoring its parameters for 2 s"));
  EXPECT_NEAR(recorders.of(0).read().seconds, 2, 0.01);
  recorders.of(0).begin(Activity::reading);
  EXPECT_THAT(look(5), ElementsAre("rank 0 goes on after 3 s"));
  EXPECT_THAT(look(6), IsEmpty());
  EXPECT_THAT(look(7), ElementsAre("rank 0 has been waiting for the data of step 1 for 2 s"));
  recorders.of(0).fail("the disk is gone", false);
  EXPECT_THAT(look(100), IsEmpty());
  Watchdog off(recorders, 0);
  EXPECT_THAT(off.look(0).messages, IsEmpty());
  EXPECT_THAT(off.look(1000).messages, IsEmpty());
}

}  // namespace
}  // namespace strata::host

#include <gtest/gtest.h>

#include "compiler/check/program_check.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "compiler/passes/passes.hpp"
#include "program_sketch.hpp"

/// \file
/// A wait for a send that comes too early is a deadlock, and one that comes too late keeps memory. Two stages exchange
/// an activation and its gradient.

namespace strata::host::test {
namespace {

constexpr int kMicroBatches = 2;

class SentMemory : public ::testing::Test {
 protected:
  SentMemory() {
    for (Program& program : programs_) {
      program.mesh = Mesh({{"pp", 2}});
      program.micro_batches = kMicroBatches;
    }
    ProgramSketch first(programs_[0]);
    x_ = first.buffer("x", 8);
    const BufferId gradient = first.buffer("gradient", 8);
    first.task(Task::Kind::forward);
    first.task(Task::Kind::backward);
    push(0, 0, first.load("x", x_));
    push(0, 0, first.send(1, "pp", 1, x_));
    push(0, 0, first.op("unary", "skip", {x_}, first.buffer("y", 8)));
    push(0, 1, first.receive(2, "pp", 1, gradient));
    push(0, 1, first.op("unary", "use", {gradient}, first.buffer("z", 8)));
    ProgramSketch second(programs_[1]);
    const BufferId received = second.buffer("received", 8);
    const BufferId result = second.buffer("result", 8);
    second.task(Task::Kind::forward);
    push(1, 0, second.receive(1, "pp", 0, received));
    push(1, 0, second.op("unary", "result", {received}, result));
    push(1, 0, second.send(2, "pp", 0, result));
    for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      programs_[0].schedule.push_back({0, micro_batch});
      programs_[1].schedule.push_back({0, micro_batch});
    }
    for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      programs_[0].schedule.push_back({1, micro_batch});
    }
  }

  void push(std::size_t program, std::size_t task, Instruction instruction) {
    programs_[program].tasks[task].instructions.push_back(std::move(instruction));
  }

  Instruction& instruction(std::size_t program, std::size_t task, std::size_t index) {
    return programs_[program].tasks[task].instructions[index];
  }

  void add_waits() {
    for (Program& program : programs_) insert_waits(program);
    settle_messages(programs_, {0, 1});
  }

  std::string fault() {
    return find_communication_fault({programs_[0].mesh, {&programs_[0], &programs_[1]}}, {}).value_or("");
  }

  std::vector<Program> programs_{2};
  BufferId x_ = -1;
};

using Buffers = std::vector<BufferId>;

TEST_F(SentMemory, IsWaitedForWhereTheOtherStageHasReceived) {
  add_waits();
  EXPECT_EQ(instruction(0, 0, 2).waits, Buffers{}) << "the reader of the sent activation does not wait";
  EXPECT_EQ(instruction(0, 1, 0).waits, Buffers{x_}) << "the backward pass needs what the second stage made of it";
  EXPECT_EQ(fault(), "");
}

/// The forward passes alone, as in an evaluation.
class SentMemoryOfEvaluation : public SentMemory {
 protected:
  SentMemoryOfEvaluation() {
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      programs_[i].micro_batches = 40;
      programs_[i].schedule.clear();
      for (int micro_batch = 0; micro_batch < 40; ++micro_batch) {
        programs_[i].schedule.push_back({0, micro_batch, micro_batch == 39});
      }
    }
    programs_[0].tasks.pop_back();
    programs_[1].tasks[0].instructions.pop_back();
  }

  using EarlierWaits = std::vector<EarlierWait>;
};

TEST_F(SentMemoryOfEvaluation, IsWaitedForInALaterMicroBatch) {
  add_waits();
  EXPECT_EQ(instruction(0, 0, 0).earlier_waits, (EarlierWaits{{x_, 1}}));
  for (const Instruction& each : programs_[0].tasks[0].instructions) EXPECT_EQ(each.waits, Buffers{}) << each.name;
  EXPECT_EQ(fault(), "");
  EXPECT_EQ(plan_memory(programs_[0]).slots(), 1);
}

TEST_F(SentMemoryOfEvaluation, OfAFastSenderIsThatOfTwoMessages) {
  ProgramSketch second(programs_[1]);
  for (int i = 0; i < 10; ++i) push(1, 0, second.op("unary", "slow", {1}, second.buffer("slow", 8)));
  add_waits();
  EXPECT_EQ(instruction(0, 0, 0).earlier_waits, (EarlierWaits{{x_, 2}}));
  EXPECT_EQ(fault(), "");
  EXPECT_EQ(plan_memory(programs_[0]).slots(), 2);
}

/// The second stage receives only when the first has sent all.
TEST_F(SentMemoryOfEvaluation, StaysInUseIfWaitingForItIsADeadlock) {
  ProgramSketch first(programs_[0]);
  ProgramSketch second(programs_[1]);
  first.task(Task::Kind::epilogue);
  second.task(Task::Kind::prologue);
  const BufferId word = first.buffer("word", 8);
  push(0, 1, first.load("word", word));
  push(0, 1, first.send(7, "pp", 1, word));
  push(1, 1, second.receive(7, "pp", 0, second.buffer("word", 8)));
  programs_[0].schedule.push_back({1, -1});
  programs_[1].schedule.insert(programs_[1].schedule.begin(), {1, -1});
  add_waits();
  for (const Instruction& each : programs_[0].tasks[0].instructions) EXPECT_EQ(each.earlier_waits, EarlierWaits{});
  EXPECT_EQ(plan_memory(programs_[0]).slots(), 40);
}

/// A wait for the first of two sends of one buffer would wait for the second one as well, whose receiver needs what the
/// sender computes after the wait.
TEST(SentMemoryOfThreeStages, IsWaitedForWhenAllReceiversHaveIt) {
  std::vector<Program> programs(3);
  for (Program& program : programs) program.mesh = Mesh({{"pp", 3}});
  const auto push = [&](std::size_t stage, Instruction instruction) {
    programs[stage].tasks[0].instructions.push_back(std::move(instruction));
  };
  for (Program& program : programs) {
    ProgramSketch(program).task(Task::Kind::forward);
    program.schedule = {{0, 0}};
  }
  ProgramSketch first(programs[0]);
  const BufferId x = first.buffer("x", 8);
  const BufferId y = first.buffer("y", 8);
  const BufferId z = first.buffer("z", 8);
  push(0, first.load("x", x));
  push(0, first.send(1, "pp", 1, x));
  push(0, first.send(2, "pp", 2, x));
  push(0, first.op("unary", "f", {x}, y));
  push(0, first.op("unary", "g", {y}, z));
  push(0, first.send(3, "pp", 1, z));
  ProgramSketch second(programs[1]);
  const BufferId w = second.buffer("w", 8);
  push(1, second.receive(1, "pp", 0, second.buffer("x", 8)));
  push(1, second.receive(3, "pp", 0, second.buffer("z", 8)));
  push(1, second.op("mix", "w", {1, 2}, w));
  push(1, second.send(4, "pp", 2, w));
  ProgramSketch third(programs[2]);
  push(2, third.receive(4, "pp", 1, third.buffer("w", 8)));
  push(2, third.receive(2, "pp", 0, third.buffer("x", 8)));
  for (Program& program : programs) insert_waits(program);
  settle_messages(programs, {0, 1, 2});
  const RankPrograms ranks{programs[0].mesh, {&programs[0], &programs[1], &programs[2]}};
  EXPECT_EQ(find_communication_fault(ranks, {.matches_messages_by_id = true}), std::nullopt);
}

/// The second stage receives two activations in one order, and the first stage sends them in the other.
TEST_F(SentMemory, AMutantThatWaitsAtTheLastReaderIsRefused) {
  ProgramSketch first(programs_[0]);
  push(0, 0, first.send(3, "pp", 1, instruction(0, 0, 2).outputs[0]));
  instruction(0, 0, 3).as<Send>()->channel = 1;
  ProgramSketch second(programs_[1]);
  Instruction receive = second.receive(3, "pp", 0, second.buffer("skipped", 8));
  receive.as<Receive>()->channel = 1;
  programs_[1].tasks[0].instructions.insert(programs_[1].tasks[0].instructions.begin(), std::move(receive));
  add_waits();
  EXPECT_EQ(fault(), "");
  instruction(0, 0, 2).waits.push_back(x_);
  EXPECT_NE(fault().find("deadlock: rank 0 is at unary 'skip'"), std::string::npos) << fault();
}

}  // namespace
}  // namespace strata::host::test

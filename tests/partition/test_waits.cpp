#include <gtest/gtest.h>

#include "compiler/passes/passes.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::testing {
namespace {

/// One task that runs once, on two ranks along one axis.
class Waits : public ::testing::Test {
 protected:
  BufferId buffer(const std::string& name) { return builder_.add_flat(name, BufferKind::activation, DType::f32, 4); }
  void send(BufferId of) { push({.work = Send{{"a", 1}}, .inputs = {of}}); }
  void receive(BufferId of) { push({.work = Receive{{"a", 0}}, .outputs = {of}}); }
  void all_gather(BufferId from, BufferId to) {
    push({.name = "x",
          .work = Collective{.kind = CollectiveKind::all_gather, .axes = {"a"}},
          .inputs = {from},
          .outputs = {to}});
  }
  void all_reduce(BufferId of) { push(builder_.all_reduce(of, {"a"}, std::nullopt, "x")); }
  void compute(std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
    push(host::flat_op("accumulate", "x", std::move(inputs), std::move(outputs)));
  }
  void push(Instruction instruction) { builder_.instructions(Task::Kind::forward).push_back(std::move(instruction)); }
  std::vector<std::vector<BufferId>> waits() {
    builder_.program().schedule = {{0, 0}};
    host::insert_waits(builder_.program());
    std::vector<std::vector<BufferId>> all;
    for (const Instruction& instruction : builder_.program().tasks.front().instructions)
      all.push_back(instruction.waits);
    return all;
  }
  host::ProgramBuilder builder_{Mesh({{"a", 2}})};
};

using Buffers = std::vector<BufferId>;

TEST_F(Waits, TheFirstReaderWaitsAndTheSecondNeedNot) {
  const BufferId x = buffer("x");
  const BufferId y = buffer("y");
  all_reduce(x);
  compute({y}, {y});
  compute({x}, {y});
  compute({x}, {y});
  EXPECT_EQ(waits(), (std::vector<Buffers>{{}, {}, {x}, {}}));
}

TEST_F(Waits, WhoOverwritesWhatIsBeingSentWaits) {
  const BufferId x = buffer("x");
  send(x);
  compute({}, {x});
  EXPECT_EQ(waits(), (std::vector<Buffers>{{}, {x}}));
}

// A reader that waited until another rank has received could wait for a rank that waits for the reader.
TEST_F(Waits, ReadingNeverWaitsForASend) {
  const BufferId x = buffer("x");
  const BufferId y = buffer("y");
  send(x);
  compute({x}, {y});
  send(x);
  all_gather(x, y);
  EXPECT_EQ(waits(), (std::vector<Buffers>{{}, {}, {}, {}}));
}

TEST_F(Waits, OnlyTheLastReaderOfWhatACollectiveReadsWaits) {
  const BufferId x = buffer("x");
  const BufferId y = buffer("y");
  all_gather(x, y);
  compute({x}, {});
  compute({y}, {});
  compute({x}, {});
  EXPECT_EQ(waits(), (std::vector<Buffers>{{}, {}, {y}, {}})) << "the wait for y ends the collective";
}

TEST_F(Waits, AWaitThatIsThereCountsAsTheLastTouch) {
  const BufferId x = buffer("x");
  const BufferId y = buffer("y");
  const BufferId z = buffer("z");
  all_gather(x, z);
  compute({x}, {y});
  compute({y}, {y});
  builder_.instructions(Task::Kind::forward).back().waits = {x};
  EXPECT_EQ(waits(), (std::vector<Buffers>{{}, {}, {x}}));
}

TEST_F(Waits, TheFirstReaderOfWhatIsBeingReceivedWaits) {
  const BufferId x = buffer("x");
  const BufferId y = buffer("y");
  receive(x);
  compute({x}, {y});
  compute({x}, {y});
  EXPECT_EQ(waits(), (std::vector<Buffers>{{}, {x}, {}}));
}

TEST_F(Waits, CollectivesKeepTheirOrderByThemselves) {
  const BufferId x = buffer("x");
  all_reduce(x);
  all_reduce(x);
  EXPECT_EQ(waits(), (std::vector<Buffers>{{}, {}}));
}

TEST_F(Waits, MessagesDoNotKeepOrderWithAnything) {
  const BufferId x = buffer("x");
  receive(x);
  all_reduce(x);
  send(x);
  EXPECT_EQ(waits(), (std::vector<Buffers>{{}, {x}, {x}}));
}

TEST_F(Waits, AViewWaitsForWhatUsesItsMemory) {
  const BufferId x = buffer("x");
  const BufferId view = buffer("view");
  builder_.buffer(view).base = x;
  all_reduce(x);
  compute({view}, {});
  EXPECT_EQ(waits(), (std::vector<Buffers>{{}, {x}}));
}

}  // namespace
}  // namespace strata::testing

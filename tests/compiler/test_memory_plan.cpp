#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "compiler/check/program_check.hpp"
#include "compiler/memory/memory_packing.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "lifetime_sketch.hpp"
#include "random_programs.hpp"
#include "strata/error.hpp"

namespace strata::host::test {
namespace {

using ::testing::HasSubstr;

/// Moves one instance of a root buffer, and the views in it, to `offset`.
void move(const Program& program, MemoryPlan& plan, BufferId root, int micro_batch, std::int64_t offset) {
  const std::int64_t by = offset - plan.offset(root, micro_batch);
  for (const Buffer& buffer : program.buffers) {
    if (program.root(buffer.id) != root) continue;
    std::int64_t& at = plan.offsets[static_cast<std::size_t>(buffer.id)][static_cast<std::size_t>(micro_batch + 1)];
    if (at >= 0) at += by;
  }
}

TEST(MemoryPlan, RefusesSizesWhoseSumIsTooLargeToCount) {
  Program program = make_random_ranks(1, {.micro_batches = 4, .steps = 14}).stages.front();
  for (Buffer& buffer : program.buffers) {
    if (buffer.base < 0) buffer.shape = {std::int64_t{1} << 55};
  }
  try {
    static_cast<void>(plan_memory(program));
    FAIL() << "accepted";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("have 2^60 bytes or more; its dimensions are too large"));
  }
}

TEST(MemoryPlan, IsVerifiedAndCloseToTheLeastPossible) {
  double worst = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const RandomRanks random = make_random_ranks(seed, {.micro_batches = 4, .steps = 14});
    for (const Program& program : random.stages) {
      const MemoryPlan plan = plan_memory(program);
      EXPECT_EQ(plan_refusal(program, plan), "") << "seed " << seed;
      const std::int64_t most = find_peak(buffer_lifetimes(program, BufferRanges(program))).bytes;
      const std::int64_t least = plan.persistent_bytes + most;
      EXPECT_GE(plan.arena_bytes, least);
      EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.2 * static_cast<double>(least)) << "seed " << seed;
      worst = std::max(worst, static_cast<double>(plan.arena_bytes) / static_cast<double>(least));
      std::int64_t at_peak = 0;
      for (const auto& [kind, bytes] : plan.bytes_at_peak) at_peak += bytes;
      EXPECT_LE(at_peak, plan.arena_bytes);
      EXPECT_GE(at_peak, most);
    }
  }
  RecordProperty("worst_ratio", std::to_string(worst));
}

TEST(MemoryPlan, PersistentBuffersComeFirstAndViewsLieInTheirRoots) {
  const Program program = make_random_ranks(5).stages[1];
  const MemoryPlan plan = plan_memory(program);
  for (const Buffer& buffer : program.buffers) {
    for (int micro_batch = -1; micro_batch < program.micro_batches; ++micro_batch) {
      const auto offset = plan.offsets[static_cast<std::size_t>(buffer.id)][static_cast<std::size_t>(micro_batch + 1)];
      if (offset < 0) continue;
      EXPECT_EQ(offset + buffer.bytes() <= plan.persistent_bytes, buffer.persistent) << buffer.name;
      if (buffer.base < 0) {
        EXPECT_EQ(offset % kBufferAlignment, 0) << buffer.name;
      } else {
        EXPECT_EQ(offset, plan.offset(buffer.base, micro_batch) + buffer.offset * 4) << buffer.name;
      }
    }
  }
  EXPECT_THROW(static_cast<void>(plan.offset(program.reports.at("norm"), 0)), VerificationError);
}

TEST(MemoryPlan, PlacesOutsideOfTheDeviceHoldWhatLiesThereAndNothingElse) {
  for (const std::uint32_t seed : {4U, 5U}) {
    const Program program = make_random_ranks(seed).stages[1];
    const MemoryPlan plan = plan_memory(program);
    std::int64_t outside = 0;
    for (const Buffer& buffer : program.buffers) {
      if (buffer.place == MemoryPlace::device) continue;
      EXPECT_EQ(plan.offset(buffer.id, -1), outside) << "multiples of the alignment, one behind the other";
      outside += buffer.bytes();
    }
    EXPECT_GT(outside, 0);
    EXPECT_EQ(plan.offload, seed % 2 == 0 ? (OffloadBytes{outside, 0}) : (OffloadBytes{0, outside}));
    std::int64_t kept = 0;
    for (const Buffer& buffer : program.buffers) {
      const bool in_arena = buffer.base < 0 && buffer.persistent && buffer.place == MemoryPlace::device;
      if (in_arena) kept = (kept + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment + buffer.bytes();
    }
    EXPECT_EQ(plan.persistent_bytes, kept);
  }
}

TEST(MemoryPlan, ReusesWhatIsFree) {
  LifetimeSketch test;
  BufferId x = test.loaded("x0");
  for (int i = 1; i < 50; ++i) x = test.unary("x" + std::to_string(i), x);
  const MemoryPlan plan = plan_memory(test.program);
  EXPECT_EQ(plan.arena_bytes, 512);  // two buffers of 256 bytes take turns
  EXPECT_EQ(plan.bytes_at_peak.at(BufferKind::activation), 512);
  EXPECT_EQ(plan_refusal(test.program, plan), "");
}

TEST(MemoryPlan, TheArenaEndsWhereTheHighestBufferEnds) {
  LifetimeSketch test;
  test.loaded("x", 100);
  EXPECT_EQ(plan_memory(test.program).arena_bytes, 400);
}

StoredParameter without_gradient(const std::string& name, std::vector<ShardedDim> dims, BufferId value) {
  StoredParameter parameter;
  parameter.name = name;
  parameter.dims = std::move(dims);
  parameter.value = value;
  return parameter;
}

/// Another program of the same rank uses the parameters where the first program placed them.
TEST(SharedMemory, ParametersStayWhereTheyAre) {
  const Program training = make_random_ranks(2).stages[0];
  const MemoryPlan first = plan_memory(training);
  const SharedMemory shared = shared_memory(training, first);
  LifetimeSketch evaluation;
  const std::int64_t elements = training.buffer(training.parameters[0].value).elements();
  const BufferId weight = evaluation.sketch.buffer("weight", elements, BufferKind::parameter);
  const BufferId total = evaluation.sketch.flat("total", BufferKind::activation, 2, true);
  evaluation.program.buffers[static_cast<std::size_t>(weight)].persistent = true;
  evaluation.program.parameters.push_back(without_gradient("weight", training.parameters[0].dims, weight));
  const BufferId y = evaluation.unary("y", weight);
  const MemoryPlan plan = plan_memory(evaluation.program, shared);
  EXPECT_EQ(plan_refusal(evaluation.program, plan), "");
  EXPECT_EQ(plan.offset(weight, -1), first.offset(training.parameters[0].value, -1));
  EXPECT_GE(plan.offset(total, -1), first.persistent_bytes);
  EXPECT_GE(plan.offset(y, -1), plan.offset(total, -1) + 8);
  EXPECT_EQ(plan.arena_bytes, plan.offset(y, -1) + elements * 4);

  StoredParameter& stored = evaluation.program.parameters.back();
  stored.sharding = FlatSharding{{"dp"}, 2 * elements, 0, true};
  EXPECT_THROW(static_cast<void>(plan_memory(evaluation.program, shared)), VerificationError);
  stored.sharding->values = false;  // sharding of the states, which only training has
  EXPECT_NO_THROW(static_cast<void>(plan_memory(evaluation.program, shared)));

  evaluation.program.buffers[static_cast<std::size_t>(weight)].shape = {1 << 20};
  EXPECT_THROW(static_cast<void>(plan_memory(evaluation.program, shared)), VerificationError);
}

/// Values outside of the device are shared in their place.
TEST(SharedMemory, ParametersStayInTheirPlace) {
  const auto values_in_host = [](ProgramSketch& sketch, Program& program) {
    const BufferId weight = sketch.flat("weight", BufferKind::parameter, 100, true);
    program.buffers.back().place = MemoryPlace::host;
    program.parameters.push_back(without_gradient("weight", {}, weight));
    return weight;
  };
  LifetimeSketch training;
  training.sketch.flat("state", BufferKind::optimizer, 10, true);
  training.program.buffers.back().place = MemoryPlace::host;
  const BufferId first = values_in_host(training.sketch, training.program);
  training.sketch.flat("count", BufferKind::activation, 5, true);
  const MemoryPlan plan = plan_memory(training.program);
  EXPECT_EQ(plan.offset(first, -1), 256);
  EXPECT_EQ(plan.offload, (OffloadBytes{256 + 400, 0}));
  EXPECT_EQ(plan.arena_bytes, 20);

  LifetimeSketch evaluation;
  const BufferId second = values_in_host(evaluation.sketch, evaluation.program);
  const MemoryPlan beside = plan_memory(evaluation.program, shared_memory(training.program, plan));
  EXPECT_EQ(plan_refusal(evaluation.program, beside), "");
  EXPECT_EQ(beside.offset(second, -1), 256);
  EXPECT_EQ(beside.offload, plan.offload);
}

// --- plans that are wrong

TEST(VerifyMemory, RefusesOperandsThatOverlap) {
  LifetimeSketch test;
  const BufferId x = test.loaded("x");
  const BufferId y = test.unary("y", x);
  test.push(test.sketch.op("mix", "z", {x, y}, test.sketch.buffer("z", 64)));
  const MemoryPlan plan = plan_memory(test.program);
  for (const auto& [moved, onto, expected] : {
           std::tuple{y, x, "%1 'y' and %0 'x' overlap at task 'epilogue', instruction 1 unary 'y'"},
           std::tuple{2, x, "%2 'z' and %0 'x' overlap at task 'epilogue', instruction 2 mix 'z'"},
       }) {
    MemoryPlan broken = plan;
    move(test.program, broken, moved, -1, plan.offset(onto, -1));
    EXPECT_THAT(plan_refusal(test.program, broken), HasSubstr(expected));
  }
}

TEST(VerifyMemory, RefusesMemoryThatIsReusedTooEarly) {
  LifetimeSketch test;
  const BufferId x = test.loaded("x");
  const BufferId y = test.unary("y", x);
  const BufferId z = test.unary("z", y);
  test.push(test.sketch.op("mix", "w", {z, x}, test.sketch.buffer("w", 64)));
  MemoryPlan plan = plan_memory(test.program);
  ASSERT_EQ(plan_refusal(test.program, plan), "");
  move(test.program, plan, z, -1, plan.offset(x, -1));
  EXPECT_THAT(plan_refusal(test.program, plan), HasSubstr("overlap at task 'epilogue', instruction 3 mix 'w'"));
  test.program.tasks[0].instructions.back() = test.sketch.op("unary", "w", {x}, 3);
  EXPECT_THAT(
      plan_refusal(test.program, plan),
      HasSubstr("buffer %0 'x' is read at task 'epilogue', instruction 3 unary 'w' but %2 'z' lies in its place"));
}

TEST(VerifyMemory, RefusesMemoryThatCommunicationStillUses) {
  LifetimeSketch test;
  const BufferId x = test.loaded("x");
  test.all_reduce(x);
  const BufferId y = test.loaded("y");
  const BufferId z = test.unary("z", y, {x});
  MemoryPlan plan = plan_memory(test.program);
  ASSERT_EQ(plan_refusal(test.program, plan), "");
  move(test.program, plan, z, -1, plan.offset(y, -1));
  move(test.program, plan, y, -1, plan.offset(x, -1));
  EXPECT_THAT(plan_refusal(test.program, plan),
              HasSubstr("%1 'y' overlaps %0 'x' at task 'epilogue', instruction 2 load 'y' while it is used by task "
                        "'epilogue', instruction 1 all_reduce 'c1'"));
  // After the wait, no instruction reads x any more.
  test.program.tasks[0].instructions[2].waits = {x};
  EXPECT_EQ(plan_refusal(test.program, plan), "");
}

TEST(VerifyMemory, RefusesPlacesThatCannotBe) {
  const Program program = make_random_ranks(7).stages[1];
  const MemoryPlan plan = plan_memory(program);
  const BufferId values = program.root(program.parameters[0].value);
  const BufferId gradients = program.root(program.parameters[0].gradient);
  const BufferId norm = program.reports.at("norm");
  const auto named = [&](const std::string& name) {
    return std::find_if(program.buffers.begin(), program.buffers.end(),
                        [&](const Buffer& each) { return each.name == name; })
        ->id;
  };
  const BufferId first = named("first");
  const BufferId second = named("second");
  const std::tuple<std::string, std::function<void(MemoryPlan&)>> rows[] = {
      {"which is persistent", [&](MemoryPlan& each) { move(program, each, norm, -1, each.offset(values, -1)); }},
      {"which is persistent", [&](MemoryPlan& each) { move(program, each, values, -1, each.offset(gradients, -1)); }},
      {"lies among those that are not",
       [&](MemoryPlan& each) { move(program, each, values, -1, each.persistent_bytes); }},
      {"outside the arena",
       [&](MemoryPlan& each) { move(program, each, norm, -1, (each.arena_bytes + 255) / 256 * 256); }},
      {"which is not aligned", [&](MemoryPlan& each) { move(program, each, norm, -1, each.offset(norm, -1) + 8); }},
      {"has no place", [&](MemoryPlan& each) { each.offsets[static_cast<std::size_t>(norm)][0] = -1; }},
      {"does not lie in",
       [&](MemoryPlan& each) {
         for (std::int64_t& at : each.offsets[static_cast<std::size_t>(program.parameters[0].gradient)]) at += 256;
       }},
      {"outside the arena", [&](MemoryPlan& each) { each.arena_bytes = each.persistent_bytes - 1; }},
      {"lies outside the file of", [&](MemoryPlan& each) { each.offload.file = 8; }},
      {"which is persistent", [&](MemoryPlan& each) { move(program, each, first, -1, each.offset(second, -1)); }},
      {"for another program", [&](MemoryPlan& each) { each.offsets.pop_back(); }},
  };
  ASSERT_EQ(plan_refusal(program, plan), "");
  for (const auto& [expected, edit] : rows) {
    MemoryPlan broken = plan;
    edit(broken);
    EXPECT_THAT(plan_refusal(program, broken), HasSubstr(expected));
  }
}

/// The times at which each instance is written and read.
struct Accesses {
  std::vector<int> writes;
  std::vector<int> reads;
};

std::map<std::int64_t, Accesses> accesses(const Program& program, const BufferRanges& ranges) {
  std::map<std::int64_t, Accesses> result;
  int now = 0;
  for_each_instruction(program, [&](const TaskInstance& at, std::size_t, const Instruction& instruction) {
    const auto note = [&](BufferId id, std::vector<int> Accesses::*list) {
      if (!ranges.persistent(id)) (result[ranges.instance(id, at.micro_batch)].*list).push_back(now);
    };
    for (const BufferId id : instruction.inputs) note(id, &Accesses::reads);
    for (const BufferId id : instruction.outputs) note(id, &Accesses::writes);
    ++now;
  });
  return result;
}

/// True if something is written to `thief` between a write to `victim` and the read of that.
bool would_steal(const Accesses& victim, const Accesses& thief) {
  return std::any_of(victim.reads.begin(), victim.reads.end(), [&](int read) {
    const auto after = std::lower_bound(victim.writes.begin(), victim.writes.end(), read);
    if (after == victim.writes.begin()) return false;
    const int written = *std::prev(after);
    return std::any_of(thief.writes.begin(), thief.writes.end(), [&](int at) { return at > written && at <= read; });
  });
}

TEST(VerifyMemory, RefusesEveryOverlapThatMatters) {
  int refused = 0;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    const RandomRanks random = make_random_ranks(seed);
    const Program& program = random.stages[seed % 3];
    const MemoryPlan plan = plan_memory(program);
    const BufferRanges ranges(program);
    const auto all = accesses(program, ranges);
    std::mt19937 generator(seed);
    for (int attempt = 0; attempt < 200; ++attempt) {
      const auto& [victim, of_victim] =
          *std::next(all.begin(), static_cast<std::ptrdiff_t>(pick(generator, all.size())));
      const auto& [thief, of_thief] = *std::next(all.begin(), static_cast<std::ptrdiff_t>(pick(generator, all.size())));
      if (victim == thief || !would_steal(of_victim, of_thief)) continue;
      MemoryPlan broken = plan;
      const std::int64_t place = plan.offset(ranges.root_of_instance(victim), ranges.micro_batch_of_instance(victim));
      move(program, broken, ranges.root_of_instance(thief), ranges.micro_batch_of_instance(thief), place);
      broken.arena_bytes *= 2;  // not refused for its size
      EXPECT_NE(plan_refusal(program, broken), "")
          << "seed " << seed << ": " << ranges.describe_instance(thief) << " onto " << ranges.describe_instance(victim);
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace strata::host::test

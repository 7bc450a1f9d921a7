#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/memory/memory_plan.hpp"
#include "compiler/passes/passes.hpp"
#include "runtime/executor.hpp"
#include "runtime/rank_threads.hpp"
#include "runtime/requests_in_flight.hpp"
#include "runtime/toy_device.hpp"
#include "runtime/toy_program.hpp"
#include "strata/error.hpp"
#include "world.hpp"

namespace strata::host {
namespace {

using strata::testing::HostDevice;
using strata::testing::StreamDevice;
using strata::testing::ToyBaseNames;
using strata::testing::ToyBases;
using strata::testing::ToyDevice;
using strata::testing::ToyProgram;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Tokens are 100 · sample + position.
class CountingInput final : public InputSource {
 public:
  void load(const InputPart& part, std::uint64_t step) override {
    if (part.name != "tokens") throw RuntimeError("no input '" + part.name + "'");
    auto* destination = reinterpret_cast<std::int32_t*>(part.destination);
    for (std::int64_t i = 0; i < part.dims[0].local_size(); ++i) {
      for (std::int64_t j = 0; j < part.dims[1].local_size(); ++j) {
        *destination++ = static_cast<std::int32_t>(100 * part.dims[0].global_index(i) + part.dims[1].global_index(j) +
                                                   1000 * static_cast<std::int64_t>(step));
      }
    }
  }
};

struct RankResult {
  Reports reports;
  std::map<std::string, Traffic> traffic;
  std::map<BufferId, std::vector<double>> buffers;
  std::int64_t peak_bytes = 0;
};

/// Runs one program per rank for `steps` steps. Returns the results of the last step. `read`: f64 buffers to read at
/// the end.
template <class Base>
std::vector<RankResult> run(const std::vector<Program>& programs, int steps = 1,
                            const std::vector<BufferId>& read = {}) {
  const int count = static_cast<int>(programs.size());
  local::LocalWorld world(count, 60);
  std::vector<RankResult> results(programs.size());
  run_rank_threads(
      world, [](int) { return std::make_shared<ToyDevice<Base>>(); },
      [&](Device& device, Communicator& communicator) {
        const Program& program = programs[static_cast<std::size_t>(communicator.rank())];
        const MemoryPlan plan = plan_memory(program);
        const auto arena = std::make_shared<Arena>(device, plan.arena_bytes);
        Executor executor(program, plan, communicator.rank(), 1, device, communicator, arena);
        CountingInput input;
        RankResult& result = results[static_cast<std::size_t>(communicator.rank())];
        for (int step = 0; step < steps; ++step) {
          result.reports = executor.run(static_cast<std::uint64_t>(step), 0.5, input);
        }
        result.traffic = executor.traffic();
        result.peak_bytes = executor.arena().peak_bytes();
        EXPECT_EQ(result.peak_bytes, plan.arena_bytes);
        for (const BufferId buffer : read) {
          std::vector<double>& values = result.buffers[buffer];
          values.resize(static_cast<std::size_t>(program.buffer(buffer).elements()));
          executor.read(buffer, values.data());
        }
      });
  return results;
}

template <class Base>
class ExecutorOn : public ::testing::Test {};

TYPED_TEST_SUITE(ExecutorOn, ToyBases, ToyBaseNames);

/// A program for two replicas and two micro-batches. It sums all tokens of the step over all ranks.
ToyProgram total_of_tokens(int ranks) {
  ToyProgram toy(Mesh({{"dp", ranks}}), 2);
  const ShardedDim batch{"batch", 4, {{"dp", Distribution::block}}, true};
  const ShardedDim seq{"seq", 3, {}, false};
  const BufferId tokens = toy.buffer("tokens", DType::i32, {4 / ranks, 3});
  const BufferId numbers = toy.buffer("numbers", DType::f64, {4 / ranks, 3});
  const BufferId shifted = toy.buffer("shifted", DType::f64, {4 / ranks, 3});
  const BufferId sum = toy.buffer("sum", DType::f64, {}, true);
  const BufferId total = toy.buffer("total", DType::f64, {}, true);
  toy.task("start", {-1}, Task::Kind::prologue).instructions = {
      ToyProgram::compute("affine", "zero", sum, sum, {{"factor", 0.0}, {"offset", 0.0}})};
  toy.task("forward", {0, 1}).instructions = {
      ToyProgram::load("tokens", tokens, {batch, seq}), ToyProgram::compute("number", "number", tokens, numbers),
      ToyProgram::compute("affine", "shift", numbers, shifted, {{"factor", 1.0}, {"offset", 10000.0}}),
      ToyProgram::accumulate("total", "sum", shifted, sum)};
  Instruction read = ToyProgram::compute("affine", "read", total, total, {{"factor", 1.0}, {"offset", 0.0}});
  read.waits = {sum, total};
  toy.task("end", {-1}, Task::Kind::epilogue).instructions = {
      toy.collective(CollectiveKind::all_reduce, "sum", sum, total, {"dp"}), read};
  toy.program.reports = {{"total", total}};
  return toy;
}

TYPED_TEST(ExecutorOn, AStepGivesTheSameForAnyNumberOfReplicas) {
  // The sum has the numbers of 8 samples of 3 tokens, the step, and 10000 for each token of the second micro-batch.
  double expected = 0;
  for (int sample = 0; sample < 8; ++sample) {
    for (int position = 0; position < 3; ++position) {
      expected += 100 * sample + position + 1000 + (sample >= 4 ? 10000 : 0);
    }
  }
  for (const int ranks : {1, 2, 4}) {
    const auto results =
        run<TypeParam>(std::vector<Program>(static_cast<std::size_t>(ranks), total_of_tokens(ranks).program), 2);
    // The learning rate 0.5 is added for each token, for the zeroed sum of every rank, and for the total.
    for (const RankResult& result : results) {
      EXPECT_EQ(result.reports.at("total"), expected + 0.5 * 24 + 0.5 * ranks + 0.5) << ranks;
    }
  }
}

TEST(Executor, CountsTheTrafficOfEachStep) {
  const Program program = total_of_tokens(2).program;
  const auto results = run<HostDevice>({program, program}, 3);
  for (const RankResult& result : results) {
    ASSERT_EQ(result.traffic.size(), 1U);
    const Traffic& traffic = result.traffic.at("all_reduce dp");
    EXPECT_EQ(traffic.calls, 1);
    EXPECT_EQ(traffic.bytes_sent, bytes_sent(program, program.tasks[2].instructions[0]));
  }
}

/// Gathers a matrix that is sharded by columns and slices it again: x [2, 4/tp] -> whole -> x.
TYPED_TEST(ExecutorOn, PacksGathersAndSlicesByDimension) {
  for (const Distribution distribution : {Distribution::block, Distribution::zigzag}) {
    ToyProgram toy(Mesh({{"tp", 2}}));
    const ShardedDim rows{"row", 2, {}, false};
    const ShardedDim columns{"column", 4, {{"tp", distribution}}, false};
    const BufferId tokens = toy.buffer("tokens", DType::i32, {2, 2});
    const BufferId numbers = toy.buffer("numbers", DType::f64, {2, 2});
    const BufferId pieces = toy.buffer("pieces", DType::f64, {2, 2, 2});
    const BufferId whole = toy.buffer("whole", DType::f64, {2, 4}, true);
    const BufferId packed = toy.buffer("packed", DType::f64, {2, 2, 2}, true);
    const BufferId slice = toy.buffer("slice", DType::f64, {2, 2}, true);
    Copy copy{Copy::Kind::unpack, 2, 4, 1, {"tp", distribution}};
    Instruction unpack = ToyProgram::copy("unpack", pieces, whole, copy);
    unpack.waits = {pieces};
    auto& task = toy.task("forward", {0});
    task.instructions = {ToyProgram::load("tokens", tokens, {rows, columns}),
                         ToyProgram::compute("number", "number", tokens, numbers),
                         toy.collective(CollectiveKind::all_gather, "gather", numbers, pieces, {"tp"}), unpack};
    copy.kind = Copy::Kind::pack;
    task.instructions.push_back(ToyProgram::copy("pack", whole, packed, copy));
    copy.kind = Copy::Kind::slice;
    task.instructions.push_back(ToyProgram::copy("slice", whole, slice, copy));
    const auto results = run<TypeParam>({toy.program, toy.program}, 1, {whole, packed, slice});
    const bool block = distribution == Distribution::block;
    const std::vector<std::vector<double>> parts{
        block ? std::vector<double>{0, 1, 100, 101} : std::vector<double>{0, 3, 100, 103},
        block ? std::vector<double>{2, 3, 102, 103} : std::vector<double>{1, 2, 101, 102}};
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_THAT(results[rank].buffers.at(whole), ::testing::ElementsAre(0, 1, 2, 3, 100, 101, 102, 103));
      EXPECT_EQ(results[rank].buffers.at(slice), parts[rank]);
      std::vector<double> both = parts[0];
      both.insert(both.end(), parts[1].begin(), parts[1].end());
      EXPECT_EQ(results[rank].buffers.at(packed), both);
      EXPECT_EQ(results[rank].traffic.at("all_gather tp").bytes_sent, 32);
    }
  }
}

/// Rank 0 sends the loaded tokens, rank 1 sums them. All sends start before the first receive is needed.
std::vector<Program> pipeline() {
  const ShardedDim batch{"batch", 2, {}, true};
  const ShardedDim seq{"seq", 3, {}, false};
  ToyProgram first(Mesh({{"pp", 2}}), 3);
  const BufferId tokens = first.buffer("tokens", DType::i32, {2, 3});
  const BufferId numbers = first.buffer("numbers", DType::f64, {2, 3});
  first.task("stage 0", {0, 1, 2}).instructions = {ToyProgram::load("tokens", tokens, {batch, seq}),
                                                   ToyProgram::compute("number", "number", tokens, numbers),
                                                   ToyProgram::send("numbers", numbers, {"pp", 1}, 7)};
  ToyProgram second(Mesh({{"pp", 2}}), 3);
  const BufferId received = second.buffer("numbers", DType::f64, {2, 3});
  const BufferId total = second.buffer("total", DType::f64, {}, true);
  Instruction sum = ToyProgram::accumulate("total", "sum", received, total);
  sum.waits = {received};
  second.task("stage 1", {2, 0, 1}).instructions = {ToyProgram::receive("numbers", received, {"pp", 0}, 7), sum};
  second.program.reports = {{"total", total}};
  return {first.program, second.program};
}

TYPED_TEST(ExecutorOn, SendsToAnotherStage) {
  const auto results = run<TypeParam>(pipeline());
  double expected = 0;
  for (int sample = 0; sample < 6; ++sample) expected += 3 * 100 * sample + 3;
  EXPECT_EQ(results[1].reports.at("total"), expected);
  EXPECT_EQ(results[0].traffic.at("send pp").calls, 3);
  EXPECT_EQ(results[0].traffic.at("send pp").bytes_sent, 3 * 48);
  EXPECT_TRUE(results[1].traffic.empty());
}

TYPED_TEST(ExecutorOn, AMessageIsInOrderWithACollectiveOnTheSameBuffer) {
  // Rank 1 receives into the buffer that it then reduces. The collective waits for the message, as insert_waits() says.
  ToyProgram first(Mesh({{"pp", 2}}));
  ToyProgram second(Mesh({{"pp", 2}}));
  BufferId value = -1;
  for (ToyProgram* toy : {&first, &second}) {
    const BufferId tokens = toy->buffer("tokens", DType::i32, {1, 1000});
    value = toy->buffer("value", DType::f64, {1, 1000}, true);
    Task& task = toy->task("task", {0});
    if (toy == &first) {
      task.instructions = {ToyProgram::load("tokens", tokens, {{"row", 1, {}, false}, {"column", 1000, {}, false}}),
                           ToyProgram::compute("number", "number", tokens, value),
                           ToyProgram::send("value", value, {"pp", 1}, 77)};
    } else {
      task.instructions = {ToyProgram::receive("value", value, {"pp", 0}, 77)};
    }
    task.instructions.push_back(toy->collective(CollectiveKind::all_reduce, "sum", value, value, {"pp"}));
  }
  for (ToyProgram* toy : {&first, &second}) insert_waits(toy->program);
  const auto results = run<TypeParam>({first.program, second.program}, 1, {value});
  std::vector<double> expected;
  for (int i = 0; i < 1000; ++i) expected.push_back(2.0 * i);
  EXPECT_EQ(results[0].buffers.at(value), expected);
  EXPECT_EQ(results[1].buffers.at(value), expected);
}

/// The sum of three micro-batches is reduced over the ranks in the last micro-batch.
TYPED_TEST(ExecutorOn, InstructionsOfTheLastRunAreCarriedOutOnce) {
  const ShardedDim batch{"batch", 2, {{"dp", Distribution::block}}, true};
  ToyProgram toy(Mesh({{"dp", 2}}), 3);
  const BufferId tokens = toy.buffer("tokens", DType::i32, {1, 3});
  const BufferId numbers = toy.buffer("numbers", DType::f64, {1, 3});
  const BufferId sum = toy.buffer("sum", DType::f64, {}, true);
  const BufferId last = toy.buffer("last", DType::f64, {}, true);
  Instruction complete = toy.collective(CollectiveKind::all_reduce, "complete", sum, sum, {"dp"});
  Instruction keep = ToyProgram::accumulate("total", "keep", sum, last);
  complete.occurrence = keep.occurrence = Occurrence::last;
  keep.waits = {sum};
  toy.task("backward", {2, 0, 1}).instructions = {ToyProgram::load("tokens", tokens, {batch, {"seq", 3, {}, false}}),
                                                  ToyProgram::compute("number", "number", tokens, numbers),
                                                  ToyProgram::accumulate("total", "sum", numbers, sum), complete, keep};
  double expected = 0;
  for (int sample = 0; sample < 6; ++sample) expected += 3 * 100 * sample + 3;
  for (const RankResult& result : run<TypeParam>({toy.program, toy.program}, 1, {sum, last})) {
    EXPECT_THAT(result.buffers.at(sum), ::testing::ElementsAre(expected));
    EXPECT_THAT(result.buffers.at(last), ::testing::ElementsAre(expected));
    EXPECT_EQ(result.traffic.at("all_reduce dp").calls, 1);
  }
}

TEST(Executor, ViewsShareTheirBaseAndAreWaitedForByTheirBytes) {
  ToyProgram toy(Mesh({{"dp", 2}}));
  const BufferId flat = toy.buffer("flat", DType::f64, {4}, true);
  const BufferId low = toy.view("low", flat, 0, {2});
  const BufferId high = toy.view("high", flat, 2, {2});
  const BufferId tokens = toy.buffer("tokens", DType::i32, {1, 4});
  const BufferId total = toy.buffer("total", DType::f64, {}, true);
  Instruction sum = ToyProgram::compute("total", "sum", low, total);
  sum.waits = {low};
  toy.task("task", {0}).instructions = {
      ToyProgram::load("tokens", tokens, {{"row", 1, {}, false}, {"column", 4, {}, false}}),
      ToyProgram::compute("number", "number", tokens, flat),
      toy.collective(CollectiveKind::all_reduce, "high", high, high, {"dp"}),
      toy.collective(CollectiveKind::all_reduce, "low", low, low, {"dp"}), sum};
  const auto results = run<HostDevice>({toy.program, toy.program}, 1, {flat, total});
  for (const RankResult& result : results) {
    EXPECT_THAT(result.buffers.at(flat), ::testing::ElementsAre(0, 2, 4, 6));
    EXPECT_THAT(result.buffers.at(total), ::testing::ElementsAre(2));
  }
}

TEST(Executor, WritesAndReadsPersistentBuffers) {
  ToyProgram toy{Mesh()};
  const BufferId value = toy.buffer("value", DType::f64, {2}, true);
  const BufferId total = toy.buffer("total", DType::f64, {}, true);
  toy.task("task", {0}).instructions = {ToyProgram::compute("total", "sum", value, total)};
  toy.program.reports = {{"total", total}, {"value", value}};
  const MemoryPlan plan = plan_memory(toy.program);
  local::LocalWorld world(1, 60);
  ToyDevice<StreamDevice> device;
  const auto communicator = world.connect(0, device);
  Executor executor(toy.program, plan, 0, 1, device, *communicator, std::make_shared<Arena>(device, plan.arena_bytes));
  CountingInput input;
  const std::vector<double> values{3, 4};
  executor.write(value, values.data());
  // Reports that are not scalars are read by name.
  EXPECT_EQ(executor.run(0, 0, input), (Reports{{"total", 7}}));
  std::vector<double> back(2);
  executor.read(value, back.data());
  EXPECT_EQ(back, values);
}

template <class Error>
std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

TEST(ExecutorErrors, NameRankStepTaskAndInstruction) {
  Program program = total_of_tokens(2).program;
  Program broken = program;
  broken.tasks[1].instructions[2].as<Compute>()->attributes.set("fails", true);
  // Rank 0 waits for rank 1 in the all_reduce, but the reported error is rank 1's.
  EXPECT_EQ(message_of<RuntimeError>([&] {
              run<HostDevice>({program, broken});
            }),
            "rank 1, step 1, task 'forward' micro-batch 0, instruction 2 affine 'shift': the kernel is out of order");
  EXPECT_THAT(message_of<RuntimeError>([&] {
                program.tasks[1].instructions[0].name = "images";
                run<HostDevice>({program, program});
              }),
              HasSubstr("task 'forward' micro-batch 0, instruction 0 load 'images': no input 'images'"));
}

/// A device without kernels and memory.
class EmptyDevice final : public HostDevice {
 public:
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& /*instance*/) override { return nullptr; }
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t /*bytes*/) override { return nullptr; }
};

TEST(ExecutorErrors, WhatADeviceDoesNotGiveIsNamed) {
  ToyProgram toy{Mesh()};
  const BufferId value = toy.buffer("value", DType::f64, {2}, true);
  toy.task("task", {0}).instructions = {ToyProgram::compute("fourier", "f", value, value)};
  const MemoryPlan plan = plan_memory(toy.program);
  local::LocalWorld world(1, 60);
  HostDevice host;
  EmptyDevice empty;
  const auto communicator = world.connect(0, empty);
  EXPECT_EQ(message_of<RuntimeError>([&] { Arena arena(empty, 16); }),
            "the device (host memory) gives no memory (a null pointer) for 16 bytes");
  EXPECT_EQ(message_of<RuntimeError>([&] {
              Executor executor(toy.program, plan, 0, 1, empty, *communicator, std::make_shared<Arena>(host, 16));
            }),
            "the device prepares no kernel (a null pointer) for op 'fourier' ('f')");
}

TEST(ExecutorErrors, ARequestThatIsNotThereIsNoticed) {
  RequestsInFlight requests;
  EXPECT_EQ(message_of<RuntimeError>([&] { requests.add(nullptr, true, {}); }),
            "the communicator starts no communication (a null pointer)");
}

/// Kernels of plugins may throw any type.
TEST(ExecutorErrors, AnythingThatAKernelThrowsIsNamed) {
  for (const auto& [attribute, expected] :
       {std::pair{"throws_number", "an exception of type int"}, {"throws_standard", "std::out_of_range: too far"}}) {
    Program program = total_of_tokens(1).program;
    program.tasks[1].instructions[2].as<Compute>()->attributes.set(attribute, true);
    EXPECT_EQ(message_of<RuntimeError>([&] { run<HostDevice>({program}); }),
              "rank 0, step 1, task 'forward' micro-batch 0, instruction 2 affine 'shift': " + std::string(expected));
  }
}

TEST(ExecutorErrors, AnUnknownOpIsTheConfigurationsFault) {
  ToyProgram toy{Mesh()};
  const BufferId value = toy.buffer("value", DType::f64, {2}, true);
  toy.task("task", {0}).instructions = {ToyProgram::compute("fourier", "f", value, value)};
  EXPECT_EQ(message_of<ConfigurationError>([&] { run<HostDevice>({toy.program}); }), "no op 'fourier'");
}

TEST(ExecutorErrors, ProgramsThatDoNotMatchAreNoticed) {
  Program program = total_of_tokens(2).program;
  Program other = program;
  other.tasks[2].instructions[0].as<Collective>()->reduction = Reduction::max;
  EXPECT_THAT(message_of<RuntimeError>([&] {
                run<HostDevice>({program, other});
              }),
              AllOf(HasSubstr("task 'end', instruction 1 affine 'read'"), HasSubstr("do not mean the same")));
}

}  // namespace
}  // namespace strata::host

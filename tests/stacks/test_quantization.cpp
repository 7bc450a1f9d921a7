// Quantised communication of the zero strategy (ZeRO++): exact if nothing is quantised, otherwise within its error
// bound.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>

#include "compiler/memory/memory_plan.hpp"
#include "reports/program_summary.hpp"
#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "stack_row.hpp"
#include "strata/error.hpp"
#include "strata/internal/quantization.hpp"
#include "verify/random_inputs.hpp"

namespace strata::testing {
namespace {

const std::string kGradients = "quantized_gradients = true\n";
const std::string kWeights = "quantized_weights = true\n";
const std::string kOff = "quantization = \"off\"\n";
/// Quantises f64 too, because these stacks run in f64.
const std::string kAlways = "quantization = \"always\"\n";

std::string stage(int number) { return "stage = " + std::to_string(number) + "\n"; }

// --- exact if nothing is quantised

class QuantizationOff : public ::testing::TestWithParam<StackRow> {};

TEST_P(QuantizationOff, TrainsAsOneRank) { expect_trains_as_one_rank(GetParam()); }

std::vector<StackRow> exact_rows() {
  const std::string stage_2 = stage(2) + kGradients + kOff;
  const std::string stage_3 = stage(3) + kGradients + kWeights + kOff;
  const std::string hierarchical = "hierarchical_partition = 2\n";
  return {
      {"stage_1_two", table("zero", 2, stage(1) + kGradients + kOff), 2},
      {"stage_2_two", table("zero", 2, stage_2), 2},
      {"stage_2_three", table("zero", 3, stage_2), 3, 12},
      {"stage_2_four", table("zero", 4, stage_2), 4, 8, 1},
      {"stage_3_two", table("zero", 2, stage_3), 2},
      {"stage_3_three", table("zero", 3, stage_3), 3, 12},
      {"stage_3_four", table("zero", 4, stage_3), 4, 8, 1},
      {"hierarchical", table("zero", 4, stage_3 + hierarchical), 4, 8, 1},
      {"hierarchical_of_three_nodes", table("zero", 6, stage_3 + hierarchical), 6, 12, 1},
      {"hybrid", table("zero", 2, stage_3 + "replicate = 2\n"), 4, 8, 1},
      {"with_pipeline", table("pipeline", 2) + table("zero", 2, stage_3), 4, 8, 1},
      {"with_tensor", table("zero", 2, stage_3) + table("tensor", 2), 4},
      {"on_spares_f64", table("zero", 2, stage(3) + kGradients + kWeights), 2},
      {"over_context", table("context", 2) + table("zero", 2, stage_3 + "also_over = [\"cp\"]\n"), 4},
  };
}

INSTANTIATE_TEST_SUITE_P(Rows, QuantizationOff, ::testing::ValuesIn(exact_rows()),
                         [](const auto& info) { return info.param.name; });

// --- close if it is

class QuantizationOn : public ::testing::TestWithParam<StackRow> {};

/// Trains a few steps. Adam carries on an error of about a hundredth of every gradient.
TEST_P(QuantizationOn, TrainsNearlyAsOneRankAndAlikeOnAllReplicas) {
  const StackRow& row = GetParam();
  BuiltPlugins plugins;
  const host::Verification verification =
      host::verify_stack(small_gpt2(row.strategies, row.global_batch, row.micro_batch), plugins, {3, true});
  EXPECT_EQ(verification.mesh.rank_count(), row.ranks);
  EXPECT_LT(verification.difference.loss, 1e-2);
  EXPECT_LT(verification.difference.gradient_norm, 0.2);
  // Quantisation was active.
  EXPECT_GT(verification.difference.worst(), 1e-6);
  EXPECT_EQ(verification.stack.replica_difference, 0);
  EXPECT_EQ(verification.stack.planned_peak_bytes, verification.stack.arena_peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, QuantizationOn,
    ::testing::Values(
        StackRow{"gradients_stage_1", table("zero", 2, stage(1) + kGradients + kAlways), 2},
        StackRow{"gradients_stage_2", table("zero", 3, stage(2) + kGradients + kAlways), 3, 12},
        StackRow{"weights", table("zero", 2, stage(3) + kWeights + kAlways), 2},
        StackRow{"both", table("zero", 4, stage(3) + kWeights + kGradients + kAlways), 4, 8, 1},
        StackRow{"hierarchical",
                 table("zero", 4, stage(3) + kWeights + kGradients + kAlways + "hierarchical_partition = 2\n"), 4, 8,
                 1},
        StackRow{"hybrid", table("zero", 2, stage(3) + kWeights + kGradients + kAlways + "replicate = 2\n"), 4, 8, 1}),
    [](const auto& info) { return info.param.name; });

// --- transfers of one step

/// One step of a stack, in f64 on the reference device.
class OneStep {
 public:
  /// The batch is one micro-batch.
  OneStep(const std::string& strategies, int ranks)
      : setup_(host::prepare(small_gpt2(strategies, ranks, 1), plugins_)),
        program_(compile_training(setup_.configuration, DType::f64).program(0)),
        inputs_(static_cast<std::uint64_t>(setup_.configuration.run.seed), setup_.inputs, setup_.sizes_without_data()) {
  }

  [[nodiscard]] Program& program() { return program_; }

  /// Runs all ranks without changing a parameter. Calls visit(executor) on each, one at a time.
  void run(const std::function<void(host::Executor&)>& visit) {
    const host::MemoryPlan plan = host::plan_memory(program_);
    const std::unique_ptr<World> world = setup_.make_world();
    std::mutex mutex;
    const auto make_device = [&](int rank) -> std::shared_ptr<Device> {
      return setup_.make_device(rank, setup_.stack.mesh.rank_count());
    };
    host::run_rank_threads(*world, make_device, [&](Device& device, Communicator& communicator) {
      const auto arena = std::make_shared<host::Arena>(device, plan.arena_bytes);
      host::Executor executor(program_, plan, communicator.rank(), 1, device, communicator, arena);
      host::initialize(executor, 1);
      executor.run(0, 0.0, inputs_);
      const std::lock_guard lock(mutex);
      visit(executor);
    });
  }

 private:
  BuiltPlugins plugins_;
  host::RunSetup setup_;
  Program program_;
  host::RandomInputs inputs_;
};

/// A quantisation, and its results on the ranks that receive the integers.
struct Transfer {
  BlockQuantization by;
  std::int64_t length = 0;
  BufferId from = -1;
  BufferId into = -1;
  /// The axes of the collective.
  std::vector<Axis> axes;
};

std::int64_t size_of_dim(const Compute& compute, const Dim& dim) {
  const auto found = std::find_if(compute.iteration.begin(), compute.iteration.end(),
                                  [&](const ShardedDim& each) { return each.dim == dim; });
  return found == compute.iteration.end() ? 0 : found->global_size;
}

/// Follows the integers from their quantisation through packing and collectives to their readers.
std::vector<Transfer> transfers_of(const Program& program) {
  std::vector<Transfer> transfers;
  std::map<BufferId, std::size_t> transfer_of;
  for (const Task& task : program.tasks) {
    for (const Instruction& each : task.instructions) {
      const auto* compute = each.as<Compute>();
      if (compute != nullptr && compute->op == "quantize_blocks") {
        transfer_of[each.outputs[0]] = transfers.size();
        transfers.push_back({BlockQuantization::from(compute->attributes),
                             size_of_dim(*compute, compute->operand_dims[0].back()),
                             each.inputs[0],
                             -1,
                             {}});
        continue;
      }
      const auto found = each.inputs.empty() ? transfer_of.end() : transfer_of.find(each.inputs[0]);
      if (found == transfer_of.end()) continue;
      Transfer& transfer = transfers[found->second];
      if (compute != nullptr && compute->op == "dequantize_blocks") {
        transfer.into = each.outputs[0];
        continue;
      }
      if (const auto* collective = each.as<Collective>()) transfer.axes = collective->axes;
      transfer_of[each.outputs[0]] = found->second;
    }
  }
  return transfers;
}

using Values = std::vector<double>;

/// The two ends of a transfer on every rank.
struct Ends {
  std::vector<Values> from;
  std::vector<Values> into;
};

/// A quantised number and its error bound.
struct Bounded {
  double value = 0;
  double bound = 0;
};

Bounded bounded(const Transfer& transfer, const Values& numbers, std::int64_t run, std::int64_t i) {
  const auto begin = numbers.begin() + run * transfer.length;
  const std::int64_t block = i / transfer.by.block * transfer.by.block;
  double greatest = 0;
  for (std::int64_t k = block; k < std::min(block + transfer.by.block, transfer.length); ++k) {
    greatest = std::max(greatest, std::abs(begin[k]));
  }
  return {begin[i], greatest / (2 * transfer.by.largest())};
}

class QuantizedStep : public ::testing::Test {
 protected:
  /// Runs one step that keeps both ends of all transfers, and visits each transfer.
  static void run(const std::string& strategies, int ranks,
                  const std::function<void(const Mesh&, const Transfer&, const Ends&)>& visit) {
    OneStep step(strategies, ranks);
    const std::vector<Transfer> transfers = transfers_of(step.program());
    ASSERT_FALSE(transfers.empty());
    for (const Transfer& each : transfers) {
      for (const BufferId id : {each.from, each.into}) {
        step.program().buffers[static_cast<std::size_t>(step.program().root(id))].persistent = true;
      }
    }
    std::vector<Ends> ends(transfers.size(), Ends{std::vector<Values>(static_cast<std::size_t>(ranks)),
                                                  std::vector<Values>(static_cast<std::size_t>(ranks))});
    step.run([&](host::Executor& executor) {
      const auto read = [&](BufferId id) {
        Values values(static_cast<std::size_t>(executor.program().buffer(id).elements()));
        executor.read(id, values.data());
        return values;
      };
      for (std::size_t i = 0; i < transfers.size(); ++i) {
        ends[i].from[static_cast<std::size_t>(executor.rank())] = read(transfers[i].from);
        ends[i].into[static_cast<std::size_t>(executor.rank())] = read(transfers[i].into);
      }
    });
    for (std::size_t i = 0; i < transfers.size(); ++i) visit(step.program().mesh, transfers[i], ends[i]);
  }
};

/// After a hop, a rank has the sum of the values that the ranks of its group had before, each with an error of at most
/// its own bound.
void expect_sums_within_bound(const Mesh& mesh, const Transfer& transfer, const Ends& ends) {
  ASSERT_EQ(transfer.axes.size(), 1U);
  const Axis& axis = transfer.axes.front();
  const int size = mesh.size(axis);
  for (int rank = 0; rank < mesh.rank_count(); ++rank) {
    const Values& sum = ends.into[static_cast<std::size_t>(rank)];
    for (std::int64_t at = 0; at < static_cast<std::int64_t>(sum.size()); ++at) {
      const std::int64_t run = at / transfer.length * size + mesh.coordinates(rank).at(axis);
      Bounded expected;
      for (const int source : mesh.group(rank, {axis})) {
        const Bounded one = bounded(transfer, ends.from[static_cast<std::size_t>(source)], run, at % transfer.length);
        expected.value += one.value;
        expected.bound += one.bound;
      }
      ASSERT_LE(std::abs(sum[static_cast<std::size_t>(at)] - expected.value), expected.bound * (1 + 1e-9));
    }
  }
}

TEST_F(QuantizedStep, GradientsAreWithinTheBoundOfEachRankAndHop) {
  for (const std::string options : {"", "hierarchical_partition = 2\n"}) {
    std::size_t hops = 0;
    run(table("zero", 4, stage(3) + kGradients + kAlways + options), 4,
        [&](const Mesh& mesh, const Transfer& transfer, const Ends& ends) {
          EXPECT_EQ(transfer.by.bits, 4);
          ++hops;
          expect_sums_within_bound(mesh, transfer, ends);
        });
    EXPECT_GE(hops, options.empty() ? 4U : 8U);
  }
}

TEST_F(QuantizedStep, WeightsAreWithinTheirBoundAndAlikeOnAllRanks) {
  run(table("zero", 4, stage(3) + kWeights + kAlways), 4,
      [](const Mesh& mesh, const Transfer& transfer, const Ends& ends) {
        EXPECT_EQ(transfer.by.bits, 8);
        for (int rank = 0; rank < mesh.rank_count(); ++rank) {
          const Values& gathered = ends.into[static_cast<std::size_t>(rank)];
          ASSERT_EQ(gathered, ends.into.front());
          ASSERT_EQ(gathered.size(), 4 * static_cast<std::size_t>(transfer.length));
          const Values& piece = ends.from[static_cast<std::size_t>(rank)];
          for (std::int64_t i = 0; i < transfer.length; ++i) {
            const Bounded expected = bounded(transfer, piece, 0, i);
            const double found = gathered[static_cast<std::size_t>(rank * transfer.length + i)];
            ASSERT_LE(std::abs(found - expected.value), expected.bound * (1 + 1e-9));
          }
        }
      });
}

// --- bytes

std::map<std::string, Traffic> summary_of(const Program& program) {
  std::map<std::string, Traffic> summary;
  for (const host::CommunicationSummary& each : host::summarize_communication(program)) {
    summary[each.kind + " " + each.axes] = {static_cast<std::int64_t>(each.calls), each.bytes};
  }
  return summary;
}

TEST(QuantizedTraffic, IsWhatTheProgramSays) {
  const std::string options = stage(3) + kWeights + kGradients + kAlways + "hierarchical_partition = 2\n";
  OneStep step(table("zero", 4, options), 4);
  const std::map<std::string, Traffic> expected = summary_of(step.program());
  for (const std::string key : {"all_gather dp_nodes+dp", "all_to_all dp", "all_to_all dp_nodes"}) {
    EXPECT_TRUE(expected.contains(key)) << key;
  }
  EXPECT_FALSE(expected.contains("reduce_scatter dp_nodes+dp"));
  step.run([&](host::Executor& executor) {
    ASSERT_EQ(executor.traffic().size(), expected.size());
    for (const auto& [key, traffic] : executor.traffic()) {
      EXPECT_EQ(traffic.calls, expected.at(key).calls) << key;
      EXPECT_DOUBLE_EQ(traffic.bytes_sent, expected.at(key).bytes_sent) << key;
    }
  });
}

std::map<std::string, Traffic> f32_traffic(const std::string& options) {
  host::RunConfiguration configuration = small_gpt2(table("zero", 4, stage(3) + options), 4, 1);
  configuration.model.options["embed"] = std::int64_t{128};
  return summary_of(compile_training(configuration).program(0));
}

/// One byte and a 256th of four bytes replace four bytes. With 4 bits, half a byte and the same share replace four
/// bytes.
TEST(QuantizedTraffic, IsAQuarterForWeightsAndAnEighthForGradients) {
  const auto plain = f32_traffic("");
  const auto quantized = f32_traffic(kWeights + kGradients);
  const double weights = quantized.at("all_gather dp").bytes_sent / plain.at("all_gather dp").bytes_sent;
  const double gradients = quantized.at("all_to_all dp").bytes_sent / plain.at("reduce_scatter dp").bytes_sent;
  EXPECT_FALSE(quantized.contains("reduce_scatter dp"));
  EXPECT_GE(weights, 0.25 + 1.0 / 256);
  EXPECT_LT(weights, 0.26);
  EXPECT_GE(gradients, 0.125 + 1.0 / 256);
  EXPECT_LT(gradients, 0.135);
}

/// Without quantisation, the calls are the same except for those of the scales.
TEST(QuantizedTraffic, GoesTheSameWayWhereQuantizationIsOff) {
  const auto plain = f32_traffic("");
  const auto off = f32_traffic(kWeights + kGradients + kOff);
  const auto on = f32_traffic(kWeights + kGradients);
  for (const std::string key : {"all_gather dp", "all_to_all dp"}) EXPECT_EQ(on.at(key).calls, 2 * off.at(key).calls);
  EXPECT_EQ(off.at("all_gather dp").bytes_sent, plain.at("all_gather dp").bytes_sent);
  EXPECT_EQ(off.at("all_to_all dp").bytes_sent, plain.at("reduce_scatter dp").bytes_sent);
}

/// Within a node, the backward pass gathers the parameters that the forward pass computed with. Quantising them again
/// would change them.
TEST(QuantizedTraffic, LeavesSecondaryPiecesAsTheyAre) {
  const std::string hierarchical = "hierarchical_partition = 2\n";
  const auto plain = f32_traffic(hierarchical);
  const auto quantized = f32_traffic(hierarchical + kWeights);
  EXPECT_EQ(quantized.at("all_gather dp").bytes_sent, plain.at("all_gather dp").bytes_sent);
  EXPECT_LT(quantized.at("all_gather dp_nodes+dp").bytes_sent, 0.26 * plain.at("all_gather dp_nodes+dp").bytes_sent);
}

// --- memory

/// Ops that replace collectives are offered to the device like all others, and their scratch memory is planned. For
/// example, on the cpu a sum of bf16 that becomes f32 needs some.
TEST(QuantizedMemory, HasTheScratchMemoryOfOpsInThePlaceOfCollectives) {
  const std::string in_bf16 = table("precision", std::string("compute = \"bf16\"\nreduce = \"bf16\""));
  host::RunConfiguration configuration = small_gpt2(table("zero", 2, stage(1) + kGradients + kOff) + in_bf16, 8, 2);
  configuration.device = {"device", "cpu", {}};
  const host::Compiled compiled = compile_training(configuration);
  const Program& program = compiled.programs.front();
  int with_scratch = 0;
  for (const Task& task : program.tasks) {
    if (task.kind != Task::Kind::backward) continue;
    for (const Instruction& each : task.instructions) {
      const auto* compute = each.as<Compute>();
      if (compute == nullptr || !each.name.starts_with("bucket")) continue;
      ASSERT_TRUE(compute->workspace_bytes) << each.name;
      if (*compute->workspace_bytes == 0) continue;
      ++with_scratch;
      EXPECT_GE(program.buffer(compute->workspace).bytes(), *compute->workspace_bytes) << each.name;
      EXPECT_GE(compiled.plans.front().offset(compute->workspace, program.micro_batches - 1), 0) << each.name;
    }
  }
  EXPECT_GT(with_scratch, 0);
}

// --- options

TEST(QuantizedOptions, AreRefusedWithTheReason) {
  BuiltPlugins plugins;
  const auto message = [&](const std::string& options) -> std::string {
    try {
      static_cast<void>(host::prepare(small_gpt2(table("zero", 2, options), 8, 2), plugins));
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(message(stage(2) + kWeights).find("quantized_weights: found true with stage 2"), std::string::npos);
  EXPECT_NE(message(stage(3) + kWeights + "quantization_block = 7\n").find("an even number"), std::string::npos);
  EXPECT_EQ(message(stage(3) + kWeights), "accepted");
}

}  // namespace
}  // namespace strata::testing

// Compressed gradients: workers that exchange factors of low rank, or the largest elements.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "reports/program_summary.hpp"
#include "stack_row.hpp"
#include "strategies/compress/low_rank.hpp"
#include "verify/random_inputs.hpp"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;

std::string low_rank(int workers, int rank = 2) {
  return table("compress", workers, "rank = " + std::to_string(rank) + "\n");
}

std::string largest(int workers, const std::string& density = "0.1") {
  return table("compress", workers, "method = \"topk\"\ndensity = " + density + "\n");
}

// --- the choice of the largest elements

/// Few different values, so that many are equal.
TEST(LargestElements, AreTheFirstOfEqualOnes) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto count = static_cast<std::int32_t>(1 + random() % 40);
    const auto chosen = static_cast<std::ptrdiff_t>(1 + random() % static_cast<unsigned>(count));
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& each : values) each = std::vector<float>{-2, -1, 0, 1, 2, -INFINITY, NAN}[random() % 7];
    const auto magnitude = [&](std::int32_t i) {
      const float value = values[static_cast<std::size_t>(i)];
      return std::isnan(value) ? INFINITY : std::abs(value);
    };
    std::vector<std::int32_t> wanted(values.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    std::ranges::stable_sort(wanted, std::greater<>(), magnitude);
    wanted.resize(static_cast<std::size_t>(chosen));
    std::ranges::sort(wanted);
    std::vector<float> magnitudes(values.size());
    std::vector<std::int32_t> found(wanted.size());
    compress::choose_largest(values.data(), count, chosen, magnitudes.data(), found.data());
    ASSERT_EQ(found, wanted) << "trial " << trial;
  }
}

// --- equal to the definition on one rank

class Compress : public ::testing::TestWithParam<StackRow> {};

TEST_P(Compress, TrainsAsDefined) {
  const StackRow& row = GetParam();
  BuiltPlugins plugins;
  const host::Verification verification =
      host::verify_stack(small_gpt2(row.strategies, row.global_batch, row.micro_batch), plugins, {4, true});
  EXPECT_EQ(verification.mesh.rank_count(), row.ranks);
  EXPECT_LT(verification.difference.worst(), 1e-10) << verification.difference.worst_parameter;
  EXPECT_EQ(verification.stack.replica_difference, 0);
  EXPECT_EQ(verification.stack.planned_peak_bytes, verification.stack.arena_peak_bytes);
  EXPECT_EQ(verification.stack.planned_offload, verification.stack.offload_peak);
}

std::vector<StackRow> compress_rows() {
  const std::string offload = "stage = 3\noffload_optimizer = \"host\"\noffload_param = \"host\"\n";
  return {
      {"two", low_rank(2), 2},
      {"three", low_rank(3, 1), 3, 12},
      {"rank_of_nearly_all", low_rank(2, 5), 2},
      {"several_micro_batches", low_rank(2), 2, 16, 1},
      {"inside_of_ddp", table("ddp", 2) + low_rank(2), 4, 8, 1},
      {"outside_of_ddp", low_rank(2) + table("ddp", 2), 4, 8, 1},
      {"zero_1", low_rank(2) + table("zero", 2, "stage = 1\n"), 4, 8, 1},
      {"zero_2", table("zero", 2, "stage = 2\n") + low_rank(2), 4, 8, 1},
      {"zero_3", low_rank(2) + table("zero", 2, "stage = 3\n"), 4, 8, 1},
      {"zero_offloaded", low_rank(2) + table("zero", 2, offload), 4, 8, 1},
      {"single_writer", low_rank(2) + table("dataparallel", 2), 4, 8, 1},
      {"tensor", low_rank(2) + table("tensor", 2, kSequenceParallel), 4},
      {"tensor_zero_3", low_rank(2) + table("zero", 2, "stage = 3\n") + table("tensor", 2), 8, 8, 1},
      {"context", low_rank(2) + table("context", 2), 4},
      {"pipeline", low_rank(2) + table("pipeline", 2), 4, 8, 1},
      {"pipeline_zero_1", table("pipeline", 2) + low_rank(2) + table("zero", 2), 8, 8, 1},
      {"replicas_of_workers", table("localsgd", 2, "steps = 2\n") + low_rank(2), 4, 8, 1},
      {"workers_of_replicas", low_rank(2) + table("localsgd", 2, "steps = 2\n"), 4, 8, 1},
      {"scaled_loss", low_rank(2) + table("precision", std::string("compute = \"fp16\"")), 2},
      {"recompute", low_rank(2) + table("recompute", std::string()), 2},
      {"largest", largest(2), 2},
      {"largest_of_three", largest(3, "0.001"), 3, 12},
      {"largest_zero_2", largest(2) + table("zero", 2, "stage = 2\n"), 4, 8, 1},
      {"largest_zero_offloaded", largest(2) + table("zero", 2, offload), 4, 8, 1},
      {"largest_tensor", table("tensor", 2) + largest(2), 4},
      {"largest_pipeline", largest(2) + table("pipeline", 2), 4, 8, 1},
      {"largest_replicas", table("localsgd", 2, "steps = 2\n") + largest(2), 4, 8, 1},
  };
}

INSTANTIATE_TEST_SUITE_P(Rows, Compress, ::testing::ValuesIn(compress_rows()),
                         [](const auto& info) { return info.param.name; });

/// The largest difference of a matrix's values, which both methods compress.
double difference(const host::StackResult& a, const host::StackResult& b) {
  const std::string name = "h.0.mlp.c_fc.weight";
  double largest = 0;
  for (std::size_t i = 0; i < a.parameters.at(name).size(); ++i) {
    largest = std::max(largest, std::abs(a.parameters.at(name)[i] - b.parameters.at(name)[i]));
  }
  return largest;
}

/// The proof must be able to fail: other options give another result, of the program and of the definition.
TEST(CompressDefinition, TellsExchangesApart) {
  BuiltPlugins plugins;
  const std::vector<std::string> stacks = {table("ddp", 2), low_rank(2, 1), low_rank(2, 2), largest(2),
                                           largest(2, "0.2")};
  std::vector<host::Verification> verified;
  for (const std::string& strategies : stacks) {
    verified.push_back(host::verify_stack(small_gpt2(strategies, 8, 2), plugins, {3, true}));
  }
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      EXPECT_GT(difference(verified[i].stack, verified[k].stack), 1e-6) << stacks[i] << stacks[k];
      EXPECT_GT(difference(verified[i].single, verified[k].single), 1e-6) << stacks[i] << stacks[k];
    }
  }
}

// --- one worker, and exact sums

TEST(CompressOfOneWorker, ChangesNothing) {
  const host::Compiled compiled = compile_training(small_gpt2(low_rank(1) + table("ddp", 2), 8, 2));
  EXPECT_THAT(compiled.idle_strategies, ::testing::ElementsAre(HasSubstr("compress")));
}

TEST(CompressOfNothing, IsDataParallel) {
  BuiltPlugins plugins;
  const auto verified = [&](const std::string& strategies) {
    return host::verify_stack(small_gpt2(strategies, 8, 2), plugins, {3, true});
  };
  const host::Verification exact = verified(table("compress", 2, "smallest = 1000000\n"));
  EXPECT_LT(difference(exact.stack, verified(table("ddp", 2)).stack), 1e-12);
}

// --- steps that are skipped

/// Without its protection, an error that is not finite would stay so, and every later step would be skipped.
TEST(CompressWithOverflow, GoesOnAfterSkippedSteps) {
  for (const std::string& strategies : {low_rank(2), largest(2)}) {
    const std::string precision = "compute = \"fp16\"\nloss_scale = \"dynamic\"\ninitial_scale = 1099511627776.0\n";
    BuiltPlugins plugins;
    const host::RunSetup setup = host::prepare(small_gpt2(strategies + table("precision", precision), 8, 2), plugins);
    const auto train = [&](int steps) {
      return host::run_setup_stack(setup, DType::f32, steps,
                                   [&](int rank) { return setup.make_device(rank, setup.stack.mesh.rank_count()); });
    };
    const host::StackResult skipped = train(3);
    const host::StackResult trained = train(60);
    EXPECT_FALSE(std::isfinite(skipped.gradient_norms.back()));
    EXPECT_TRUE(std::isfinite(trained.gradient_norms.back()));
    EXPECT_GT(difference(skipped, trained), 1e-6);
  }
}

// --- traffic

double bytes_over(const Program& program, const std::string& axis) {
  double bytes = 0;
  for (const auto& each : host::summarize_communication(program, 0)) {
    if (each.axes == axis) bytes += each.bytes;
  }
  return bytes;
}

TEST(CompressTraffic, IsThatOfFactorsOrOfLargestElements) {
  const auto program = [](const std::string& strategies) {
    return compile_training(small_gpt2(strategies, 8, 2)).programs.front();
  };
  const double exact = bytes_over(program(table("ddp", 2)), "dp");
  EXPECT_LT(bytes_over(program(low_rank(2, 1)), "compressed"), 0.4 * exact);
  EXPECT_LT(bytes_over(program(low_rank(2, 1)), "compressed"), bytes_over(program(low_rank(2, 2)), "compressed"));
  EXPECT_LT(bytes_over(program(largest(2, "0.01")), "compressed"), 0.2 * exact);
}

// --- refusals

std::string compress_refusal(const std::string& strategies) {
  try {
    (void)compile_training(small_gpt2(strategies, 8, 1));
    return "";
  } catch (const ConfigurationError& error) {
    return error.what();
  }
}

TEST(CompressRefusals, NameTheCulprit) {
  EXPECT_THAT(compress_refusal(low_rank(2) + table("zero", 2, "also_over = [\"compressed\"]\n")),
              HasSubstr("strategy 2 'zero' stores parameters over mesh axis 'compressed', over which a strategy"));
  EXPECT_THAT(compress_refusal(low_rank(2) + table("compress", 2, "axis = \"second\"\n")),
              HasSubstr("strategy 2 'compress' reduces gradients itself, and so does strategy 1 'compress'"));
  EXPECT_THAT(compress_refusal(low_rank(2, 0)),
              HasSubstr("strategy.0.rank: found the integer 0; accepted: an integer from 1"));
  EXPECT_THAT(compress_refusal(largest(2, "1.5")),
              HasSubstr("strategy.0.density: found the number 1.5; accepted: a number from"));
  EXPECT_THAT(compress_refusal(table("compress", 2, "density = 0.1\n")),
              HasSubstr("strategy.0.density: found 0.1 beside method = \"powersgd\"; accepted: only with the other"));
  EXPECT_THAT(compress_refusal(table("compress", 2, "method = \"topk\"\nrank = 2\n")),
              HasSubstr("strategy.0.rank: found 2 beside method = \"topk\""));
  EXPECT_THAT(compress_refusal(table("compress", 2, "method = \"signs\"\n")), HasSubstr("powersgd"));
}

}  // namespace
}  // namespace strata::testing

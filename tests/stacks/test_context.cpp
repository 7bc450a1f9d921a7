#include <algorithm>
#include <numeric>

#include "compiler/check/program_check.hpp"
#include "stack_row.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

const std::string kGather = "attention = \"all_gather\"\n";
const std::string kUlysses = "attention = \"ulysses\"\n";
const std::string kRuns = "balance = \"none\"\n";
const std::string kZigzag = "balance = \"zigzag\"\n";
const std::string kRecompute = table("recompute", std::string("policy = \"full\""));

class ContextStack : public ::testing::TestWithParam<StackRow> {};

TEST_P(ContextStack, TrainsAsOneRank) { expect_trains_as_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Attention, ContextStack,
                         ::testing::Values(StackRow{"ring_two", table("context", 2), 2},
                                           StackRow{"ring_three", table("context", 3), 3, 6, 2, false},
                                           StackRow{"ring_four", table("context", 4), 4},
                                           StackRow{"ring_in_runs", table("context", 4, kRuns), 4},
                                           StackRow{"gather_two", table("context", 2, kGather), 2},
                                           StackRow{"gather_three", table("context", 3, kGather), 3, 6, 2, false},
                                           StackRow{"gather_four", table("context", 4, kGather), 4},
                                           StackRow{"gather_in_runs", table("context", 4, kGather + kRuns), 4},
                                           StackRow{"ulysses_two", table("context", 2, kUlysses), 2},
                                           StackRow{"ulysses_three", table("context", 3, kUlysses), 3, 6, 2, false},
                                           StackRow{"ulysses_in_zigzag", table("context", 2, kUlysses + kZigzag), 2},
                                           // The ranks do not divide the heads, so the keys are gathered.
                                           StackRow{"ulysses_of_too_few_heads", table("context", 4, kUlysses), 4}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Masks, ContextStack,
    ::testing::Values(
        StackRow{"documents_in_a_ring", table("context", 4), 4, 8, 2, true, {{"context", 16}}, true},
        StackRow{"documents_in_runs", table("context", 4, kRuns), 4, 8, 2, true, {{"context", 16}}, true},
        StackRow{"documents_gathered", table("context", 4, kGather), 4, 8, 2, true, {{"context", 16}}, true},
        StackRow{"documents_in_ulysses", table("context", 2, kUlysses), 2, 8, 2, true, {{"context", 16}}, true},
        StackRow{"documents_among_split_queries",
                 table("tensor", 4, kSequenceParallel) + table("context", 2),
                 8,
                 4,
                 2,
                 true,
                 {{"context", 16}},
                 true},
        // With a window of 4, zigzag needs the hops 0, 1 and 3 of 4; contiguous runs need 0 and 1.
        StackRow{"window_in_a_ring", table("context", 4), 4, 8, 2, true, {{"context", 32}, {"window", 4}}},
        StackRow{"window_in_runs", table("context", 4, kRuns), 4, 8, 2, true, {{"context", 32}, {"window", 4}}},
        // No keys travel.
        StackRow{"window_of_one_in_runs", table("context", 4, kRuns), 4, 8, 2, true, {{"window", 1}}},
        StackRow{"window_gathered", table("context", 4, kGather), 4, 8, 2, true, {{"window", 3}}},
        StackRow{"window_in_ulysses", table("context", 2, kUlysses), 2, 8, 2, true, {{"window", 3}}},
        StackRow{"window_and_documents_recomputed",
                 table("context", 4) + kRecompute,
                 4,
                 8,
                 2,
                 true,
                 {{"context", 32}, {"window", 5}},
                 true},
        StackRow{"window_among_split_queries",
                 table("tensor", 4, kSequenceParallel) + table("context", 2, kRuns),
                 8,
                 4,
                 2,
                 true,
                 {{"context", 32}, {"window", 3}},
                 true}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Stacks, ContextStack,
    ::testing::Values(
        StackRow{"ring_inside_ddp", table("ddp", 2) + table("context", 2), 4},
        StackRow{"ring_outside_ddp", table("context", 2) + table("ddp", 2), 4},
        StackRow{"ulysses_inside_ddp", table("ddp", 2) + table("context", 2, kUlysses), 4},
        StackRow{"ring_and_tensor", table("context", 2) + table("tensor", 2), 4},
        StackRow{"ring_and_sequence", table("context", 2) + table("tensor", 2, kSequenceParallel), 4},
        StackRow{"sequence_and_ring", table("tensor", 2, kSequenceParallel) + table("context", 2), 4},
        StackRow{"gather_and_sequence", table("context", 2, kGather) + table("tensor", 2, kSequenceParallel), 4},
        StackRow{"ulysses_and_sequence", table("context", 2, kUlysses) + table("tensor", 2, kSequenceParallel), 4, 8, 2,
                 false},
        // The tensor axis does not divide the heads and shards the queries, so keys are gathered over it.
        StackRow{"ring_among_split_queries",
                 table("tensor", 4, kSequenceParallel) + table("context", 2),
                 8,
                 4,
                 2,
                 true,
                 {{"context", 16}}},
        StackRow{"ulysses_around_ring", table("context", 2, kUlysses + "axis = \"up\"\n") + table("context", 2), 4},
        StackRow{"gather_around_ring", table("context", 2, kGather + "axis = \"node\"\n") + table("context", 2), 4},
        StackRow{"recomputed_ring", table("context", 2) + kRecompute, 2},
        StackRow{"recomputed_gather", table("context", 2, kGather) + kRecompute, 2},
        StackRow{"recomputed_ulysses", table("context", 2, kUlysses) + kRecompute, 2},
        StackRow{"selectively_recomputed_ring",
                 table("context", 2) + table("recompute", std::string("policy = \"selective\"")), 2},
        StackRow{"everything",
                 table("ddp", 2) + table("context", 2) + table("tensor", 2, kSequenceParallel) + kRecompute, 8, 8, 2}),
    [](const auto& info) { return info.param.name; });

/// Work and memory of whole steps, computed from their programs.
class ContextProgram : public ::testing::Test {
 protected:
  static host::Compiled compile(int ranks, const std::string& options, std::int64_t context, std::int64_t window = 0) {
    host::RunConfiguration configuration = small_gpt2(table("context", ranks, options), 2, 2);
    configuration.model.options["context"] = context;
    configuration.model.options["window"] = window;
    return compile_training(configuration);
  }

  static const ShardedDim& find(const Compute& compute, const Dim& dim) {
    return *std::find_if(compute.iteration.begin(), compute.iteration.end(),
                         [&](const ShardedDim& each) { return each.dim == dim; });
  }

  /// The number of pairs of a query and a visible key on every rank, for each attention instruction of the first layer.
  static std::vector<std::vector<double>> visible_pairs(const host::Compiled& compiled) {
    const Program& program = compiled.programs.front();
    std::vector<std::vector<double>> pairs;
    for (const Task& task : program.tasks) {
      for (const Instruction& instruction : task.instructions) {
        const auto* compute = instruction.as<Compute>();
        if (compute == nullptr || compute->op != "attention" || instruction.name != "h.0.attn") continue;
        std::vector<double>& by_rank = pairs.emplace_back();
        for (int rank = 0; rank < program.mesh.rank_count(); ++rank) {
          by_rank.push_back(count_visible(*compute, program.mesh, program.mesh.coordinates(rank)));
        }
      }
    }
    return pairs;
  }

  static double most_over_mean(const std::vector<double>& work) {
    const double sum = std::accumulate(work.begin(), work.end(), 0.0);
    return *std::max_element(work.begin(), work.end()) * static_cast<double>(work.size()) / sum;
  }

  static std::int64_t activation_bytes(const host::Compiled& compiled) {
    return compiled.plans.front().bytes_at_peak.at(BufferKind::activation);
  }

 private:
  static double count_visible(const Compute& compute, const Mesh& mesh, const Coordinates& coordinates) {
    const IndexMap queries = index_map(find(compute, "seq"), mesh, coordinates);
    const IndexMap keys = index_map(find(compute, "kv_seq"), mesh, coordinates);
    double count = 0;
    for (std::int64_t q = 0; q < queries.local_size(); ++q) {
      for (std::int64_t k = 0; k < keys.local_size(); ++k) count += queries.global_index(q) >= keys.global_index(k);
    }
    return count;
  }
};

TEST_F(ContextProgram, ZigzagGivesEveryRankTheSameWorkInEveryHop) {
  for (const int ranks : {2, 4, 8}) {
    for (const std::string& options : {std::string(), kGather}) {
      const auto pairs = visible_pairs(compile(ranks, options, 64));
      EXPECT_EQ(pairs.size(), options.empty() ? static_cast<std::size_t>(ranks) : 1U);
      double all = 0;
      for (const std::vector<double>& of_hop : pairs) {
        EXPECT_LT(most_over_mean(of_hop), 1.02) << ranks << " ranks " << options;
        all += std::accumulate(of_hop.begin(), of_hop.end(), 0.0);
      }
      // Every query sees every earlier key and itself exactly once.
      EXPECT_EQ(all, 64 * 65 / 2);
    }
  }
}

TEST_F(ContextProgram, RunsDoNot) {
  EXPECT_GT(most_over_mean(visible_pairs(compile(4, kGather + kRuns, 64)).front()), 1.5);
}

/// The distances that keys have travelled when a rank attends to them in the first layer.
std::vector<int> hops_of(const host::Compiled& compiled) {
  std::vector<int> hops;
  for (const Task& task : compiled.programs.front().tasks) {
    for (const Instruction& instruction : task.instructions) {
      const auto* compute = instruction.as<Compute>();
      if (compute == nullptr || compute->op != "attention" || instruction.name != "h.0.attn") continue;
      for (const ShardedDim& dim : compute->iteration) {
        if (dim.dim == "kv_seq") hops.push_back(-dim.axes.front().shift);
      }
    }
  }
  return hops;
}

/// 64 tokens on 8 ranks: runs of 8 tokens, and 16 zigzag pieces of 4.
TEST_F(ContextProgram, AWindowLeavesOutTheHopsThatNoQueryNeeds) {
  using Hops = std::vector<int>;
  EXPECT_EQ(hops_of(compile(8, kRuns, 64)), (Hops{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(hops_of(compile(8, kRuns, 64, 1)), (Hops{0}));
  EXPECT_EQ(hops_of(compile(8, kRuns, 64, 2)), (Hops{0, 1}));
  EXPECT_EQ(hops_of(compile(8, kRuns, 64, 9)), (Hops{0, 1}));
  EXPECT_EQ(hops_of(compile(8, kRuns, 64, 10)), (Hops{0, 1, 2}));
  // The first half of a rank's queries needs the keys of ranks before it, the second half those of ranks after it.
  EXPECT_EQ(hops_of(compile(8, kZigzag, 64, 5)), (Hops{0, 1, 7}));
  EXPECT_EQ(hops_of(compile(8, kZigzag, 64, 6)), (Hops{0, 1, 2, 6, 7}));
}

/// Longer contexts with the same number of tokens per rank.
TEST_F(ContextProgram, RingNeedsNoMoreMemoryForALongerContext) {
  constexpr std::int64_t kTokens = 32;
  std::int64_t ring = 0;
  std::int64_t gather = 0;
  for (const int ranks : {4, 8, 16}) {
    const std::int64_t ring_now = activation_bytes(compile(ranks, "", kTokens * ranks));
    const std::int64_t gather_now = activation_bytes(compile(ranks, kGather, kTokens * ranks));
    if (ring > 0) {
      EXPECT_EQ(ring_now, ring) << ranks;
      EXPECT_GT(gather_now, gather) << ranks;
    }
    ring = ring_now;
    gather = gather_now;
  }
}

/// Keys and values are sent in the compute type. The partial results are merged and summed in f32.
TEST_F(ContextProgram, MergesInF32WhateverTheComputeType) {
  const host::Compiled compiled =
      compile_training(small_gpt2(table("context", 2) + table("precision", std::string("compute = \"bf16\"")), 2, 2));
  const Program& program = compiled.programs.front();
  const auto type = [&](BufferId buffer) { return program.buffer(buffer).dtype; };
  std::map<std::string, int> found;
  for (const Task& task : program.tasks) {
    for (const Instruction& instruction : task.instructions) {
      const bool is_gradient = instruction.name.find(" result ") != std::string::npos;
      if (instruction.is<Send>()) {
        EXPECT_EQ(type(instruction.inputs.at(0)), is_gradient ? DType::f32 : DType::bf16) << instruction.name;
        ++found[is_gradient ? "gradient" : "key"];
      }
      const std::string op = work_name(instruction);
      if (!instruction.is<Compute>() || !op.starts_with("attention")) continue;
      EXPECT_EQ(type(instruction.inputs.at(0)), op == "attention_merge" ? DType::f32 : DType::bf16);
      for (const BufferId output : instruction.outputs) EXPECT_EQ(type(output), DType::f32) << op;
      ++found[op];
    }
  }
  // Two layers on two ranks: keys and values are sent once in each pass, and their gradients once.
  const std::map<std::string, int> expected = {
      {"key", 8}, {"gradient", 4}, {"attention", 4}, {"attention_gradient", 4}, {"attention_merge", 2}};
  EXPECT_EQ(found, expected);
}

TEST_F(ContextProgram, ComputesBesideTheTransferOfTheNextKeys) {
  const host::Compiled compiled = compile(4, "", 32);
  int hops = 0;
  for (const Task& task : compiled.programs.front().tasks) {
    std::vector<BufferId> in_flight;  // buffers of the last exchange
    for (const Instruction& instruction : task.instructions) {
      if (instruction.is<Send>()) in_flight.push_back(instruction.inputs.front());
      if (instruction.is<Receive>()) in_flight.push_back(instruction.outputs.front());
      const auto* compute = instruction.as<Compute>();
      if (compute == nullptr || !compute->op.starts_with("attention") || compute->op == "attention_merge") continue;
      const bool has_exchange = in_flight.size() >= 4;
      for (const BufferId buffer : in_flight) {
        if (!has_exchange) break;
        EXPECT_EQ(std::count(instruction.waits.begin(), instruction.waits.end(), buffer), 0)
            << instruction.name << " waits for the keys of the next hop";
      }
      hops += has_exchange ? 1 : 0;
      in_flight.clear();
    }
  }
  // Two layers with three exchanges of keys in each pass. The backward pass also sends gradients in a last hop.
  EXPECT_EQ(hops, 2 * (3 + 4));
}

/// Every send is followed by its receive, so a ring does not hang if a channel holds only one message.
TEST_F(ContextProgram, NeedsRoomForOneMessageInAChannel) {
  const host::Compiled compiled = compile(4, "", 32);
  host::RankPrograms ranks{compiled.mesh, {}};
  for (int rank = 0; rank < compiled.mesh.rank_count(); ++rank) ranks.programs.push_back(&compiled.program(rank));
  CommunicatorLimits limits;
  limits.channel_capacity = 1;
  EXPECT_EQ(host::find_communication_fault(ranks, limits), std::nullopt);
}

TEST(Context, RefusesTwoRingsByTheNamesOfBoth) {
  try {
    static_cast<void>(
        compile_training(small_gpt2(table("context", 2) + table("context", 2, "axis = \"node\"\n"), 2, 2)));
    FAIL() << "accepted";
  } catch (const ConfigurationError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("strategy 1"), std::string::npos) << message;
    EXPECT_NE(message.find("strategy 2"), std::string::npos) << message;
    EXPECT_NE(message.find("h.0.attn"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace strata::testing

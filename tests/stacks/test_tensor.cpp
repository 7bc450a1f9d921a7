#include <algorithm>

#include "stack_row.hpp"

namespace strata::testing {
namespace {

const char* const kWholeVocabulary = "vocab_parallel = false\n";

class TensorStack : public ::testing::TestWithParam<StackRow> {};

TEST_P(TensorStack, TrainsAsOneRank) { expect_trains_as_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Rows, TensorStack,
    ::testing::Values(
        StackRow{"two", table("tensor", 2), 2}, StackRow{"three", table("tensor", 3), 3, 6, 2, false},
        StackRow{"four", table("tensor", 4), 4, 8, 2, false},
        StackRow{"heads_that_do_not_divide", table("tensor", 4), 4},
        StackRow{"sequence_two", table("tensor", 2, kSequenceParallel), 2},
        StackRow{"sequence_three", table("tensor", 3, kSequenceParallel), 3, 6, 2, false},
        StackRow{"sequence_four_heads_that_do_not_divide", table("tensor", 4, kSequenceParallel), 4},
        StackRow{"whole_vocabulary", table("tensor", 2, kWholeVocabulary), 2},
        StackRow{"sequence_and_whole_vocabulary", table("tensor", 2, kSequenceParallel + kWholeVocabulary), 2},
        StackRow{"inside_ddp", table("ddp", 2) + table("tensor", 2), 4},
        StackRow{"outside_ddp", table("tensor", 2) + table("ddp", 2), 4},
        StackRow{"sequence_inside_ddp", table("ddp", 2) + table("tensor", 2, kSequenceParallel), 4},
        StackRow{"two_tensor_axes", table("tensor", 2, "axis = \"rows\"\n") + table("tensor", 2, kSequenceParallel), 4,
                 8, 2, false}),
    [](const auto& info) { return info.param.name; });

class TensorProgram : public ::testing::Test {
 protected:
  static host::Compiled compile(const std::string& options) {
    return compile_training(small_gpt2(table("tensor", 2, options), 2, 2));
  }

  /// Number of collectives of one block in the forward or the backward pass. Excludes those of parameter gradients.
  static int count(const host::Compiled& compiled, Task::Kind task, CollectiveKind kind, const std::string& block) {
    int found = 0;
    for (const Task& each : compiled.programs.front().tasks) {
      if (each.kind != task) continue;
      found += static_cast<int>(
          std::count_if(each.instructions.begin(), each.instructions.end(), [&](const Instruction& instruction) {
            const auto* collective = instruction.as<Collective>();
            return collective != nullptr && collective->kind == kind && instruction.name.starts_with(block);
          }));
    }
    return found;
  }

  static std::vector<Axis> axes_of(const host::Compiled& compiled, const std::string& parameter, std::size_t dim) {
    std::vector<Axis> axes;
    for (const StoredParameter& each : compiled.programs.front().parameters) {
      if (each.name != parameter) continue;
      for (const AxisShard& shard : each.dims.at(dim).axes) axes.push_back(shard.axis);
    }
    return axes;
  }
};

/// Figure 4 of the Megatron-LM paper: f is an all_reduce in the backward pass, and g is one in the forward pass.
/// Attention and the feed-forward layer each have both.
TEST_F(TensorProgram, ReducesTwiceABlockAndPass) {
  const host::Compiled compiled = compile("");
  for (const Task::Kind pass : {Task::Kind::forward, Task::Kind::backward}) {
    for (const std::string block : {"h.0.", "h.1."}) {
      EXPECT_EQ(count(compiled, pass, CollectiveKind::all_reduce, block), 2) << block;
      EXPECT_EQ(count(compiled, pass, CollectiveKind::all_gather, block), 0) << block;
      EXPECT_EQ(count(compiled, pass, CollectiveKind::reduce_scatter, block), 0) << block;
    }
  }
}

/// Figure 5 of Korthikanti et al.: g and its conjugate become all_gather and reduce_scatter; the backward pass gathers
/// the two layers' saved inputs again for the gradients of weights.
TEST_F(TensorProgram, GathersAndScattersWithSequenceParallelism) {
  const host::Compiled compiled = compile(kSequenceParallel);
  for (const std::string block : {"h.0.", "h.1."}) {
    EXPECT_EQ(count(compiled, Task::Kind::forward, CollectiveKind::all_gather, block), 2) << block;
    EXPECT_EQ(count(compiled, Task::Kind::forward, CollectiveKind::reduce_scatter, block), 2) << block;
    EXPECT_EQ(count(compiled, Task::Kind::backward, CollectiveKind::all_gather, block), 4) << block;
    EXPECT_EQ(count(compiled, Task::Kind::backward, CollectiveKind::reduce_scatter, block), 2) << block;
    for (const Task::Kind pass : {Task::Kind::forward, Task::Kind::backward}) {
      EXPECT_EQ(count(compiled, pass, CollectiveKind::all_reduce, block), 0) << block;
    }
  }
}

TEST_F(TensorProgram, NeverGathersLogits) {
  for (const std::string& options : {std::string(), kSequenceParallel}) {
    const host::Compiled compiled = compile(options);
    const Program& program = compiled.programs.front();
    EXPECT_EQ(axes_of(compiled, "wte.weight", 0), std::vector<Axis>{"tp"});
    bool computes_a_part = false;
    for (const Task& task : program.tasks) {
      for (const Instruction& instruction : task.instructions) {
        for (const BufferId output : instruction.outputs) {
          const Buffer& buffer = program.buffer(output);
          if (buffer.kind != BufferKind::activation && buffer.kind != BufferKind::communication) continue;
          const int vocab = find_dim(buffer.dims, "vocab");
          if (vocab < 0) continue;
          EXPECT_EQ(buffer.shape[static_cast<std::size_t>(vocab)], 8) << instruction.name;
          computes_a_part = true;
        }
      }
    }
    EXPECT_TRUE(computes_a_part);
  }
}

TEST_F(TensorProgram, SplitsWhatThePaperSplits) {
  const host::Compiled compiled = compile(kWholeVocabulary);
  EXPECT_EQ(axes_of(compiled, "h.0.attn.q.weight", 1), std::vector<Axis>{"tp"});
  EXPECT_EQ(axes_of(compiled, "h.0.attn.c_proj.weight", 0), std::vector<Axis>{"tp"});
  EXPECT_EQ(axes_of(compiled, "h.0.mlp.c_fc.weight", 1), std::vector<Axis>{"tp"});
  EXPECT_EQ(axes_of(compiled, "h.0.mlp.c_proj.weight", 0), std::vector<Axis>{"tp"});
  EXPECT_EQ(axes_of(compiled, "h.0.ln_1.weight", 0), std::vector<Axis>{});
  EXPECT_EQ(axes_of(compiled, "wte.weight", 0), std::vector<Axis>{});
}

}  // namespace
}  // namespace strata::testing

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "stack_row.hpp"

namespace strata::testing {
namespace {

const Task& task_of(const host::Compiled& compiled, Task::Kind kind) {
  const std::vector<Task>& tasks = compiled.program(0).tasks;
  return *std::find_if(tasks.begin(), tasks.end(), [&](const Task& task) { return task.kind == kind; });
}

bool is_collective(const Instruction& each, CollectiveKind kind, BufferKind content) {
  const auto* collective = each.as<Collective>();
  return collective != nullptr && collective->kind == kind && collective->content == content;
}

bool is_product(const Instruction& each) { return each.is<Compute>() && work_name(each).starts_with("linear"); }

/// Products between the instruction at `start` and the first one that reads its output.
std::ptrdiff_t products_beside(const std::vector<Instruction>& instructions, std::size_t start) {
  const BufferId output = instructions[start].outputs.front();
  const auto begin = instructions.begin() + static_cast<std::ptrdiff_t>(start);
  const auto reader = std::find_if(begin + 1, instructions.end(), [&](const Instruction& each) {
    return std::find(each.inputs.begin(), each.inputs.end(), output) != each.inputs.end();
  });
  return std::count_if(begin, reader, is_product);
}

std::ptrdiff_t parameter_gathers(const host::Compiled& compiled, Task::Kind kind) {
  const std::vector<Instruction>& instructions = task_of(compiled, kind).instructions;
  return std::count_if(instructions.begin(), instructions.end(), [](const Instruction& each) {
    return is_collective(each, CollectiveKind::all_gather, BufferKind::parameter);
  });
}

TEST(Overlap, ParametersThatStayWholeAreGatheredOncePerStep) {
  const auto compiled = [](const std::string& options) {
    return compile_training(small_gpt2(table("zero", 2, "stage = 3\n" + options), 8, 2));
  };
  const host::Compiled freed = compiled("");
  const host::Compiled kept = compiled("reshard_after_forward = false\n");
  EXPECT_GT(parameter_gathers(freed, Task::Kind::forward), 0);
  EXPECT_GT(parameter_gathers(freed, Task::Kind::backward), 0);
  // The embedding and the head share a table, which is freed in between.
  EXPECT_EQ(parameter_gathers(kept, Task::Kind::prologue), parameter_gathers(freed, Task::Kind::forward) - 1);
  EXPECT_EQ(parameter_gathers(kept, Task::Kind::forward), 0);
  EXPECT_EQ(parameter_gathers(kept, Task::Kind::backward), 0);
}

/// All buckets of the last layer are reduced beside products of the layer before it, also the one that is complete
/// last.
TEST(Overlap, ABlocksGradientsAreReducedBesideTheNextBlock) {
  for (const std::string options :
       {"stage = 2\nbucket_mb = 0.002\n", "stage = 3\nbucket_mb = 0.002\n", "stage = 3\n"}) {
    const host::Compiled compiled = compile_training(small_gpt2(table("zero", 2, options), 8, 2));
    const std::vector<Instruction>& backward = task_of(compiled, Task::Kind::backward).instructions;
    int reductions = 0;
    for (std::size_t at = 0; at < backward.size(); ++at) {
      const Instruction& each = backward[at];
      if (each.block != 2 || !is_collective(each, CollectiveKind::reduce_scatter, BufferKind::gradient)) continue;
      ++reductions;
      EXPECT_GE(products_beside(backward, at), 1) << options << each.name;
    }
    EXPECT_GT(reductions, 0) << options;
  }
}

/// The backward pass of a layer gathers two inputs again and reduces two gradients.
TEST(Overlap, ProductsHideTheBackwardCollectivesOfSequenceParallelism) {
  const host::Compiled compiled = compile_training(small_gpt2(table("tensor", 2, kSequenceParallel), 8, 4));
  const std::vector<Instruction>& backward = task_of(compiled, Task::Kind::backward).instructions;
  int hidden = 0;
  for (std::size_t at = 0; at < backward.size(); ++at) {
    const Instruction& each = backward[at];
    if (each.block != 2 || communication_axes(each).empty()) continue;
    if (products_beside(backward, at) > 0) ++hidden;
  }
  EXPECT_EQ(hidden, 4);
}

}  // namespace
}  // namespace strata::testing

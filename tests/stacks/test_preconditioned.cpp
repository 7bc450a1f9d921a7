// Shampoo and SOAP, whose states belong to whole matrices: the rank that computes a matrix has them.

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "../train/small_run.hpp"
#include "runtime/shards.hpp"
#include "stack_row.hpp"
#include "train/run_recorder.hpp"

namespace strata::testing {
namespace {

/// `optimizer` for all matrices of the blocks. Some directions have no gradient but rounding errors, which SOAP divides
/// by their size and epsilon.
std::string group_of(const std::string& optimizer, std::string options = "") {
  if (optimizer == "soap") options += "epsilon = 1e-5\n";
  return "[[optimizer.group]]\nparameters = [\"h.*.attn.*.weight\", \"h.*.mlp.*.weight\"]\nplugin = \"" + optimizer +
         "\"\nperiod = 2\n" + options;
}

std::vector<StackRow> rows(const std::string& optimizer) {
  const std::string whole = group_of(optimizer);
  const std::string by_heads = group_of(optimizer, "split = [\"heads\"]\n");
  return {{"alone", whole, 1},
          {"alone_by_heads", by_heads, 1},
          {"ddp", table("ddp", 2) + whole, 2},
          {"zero_1", table("zero", 4, "stage = 1\n") + whole, 4},
          {"zero_2", table("zero", 2, "stage = 2\n") + whole, 2},
          {"zero_3", table("zero", 3, "stage = 3\n") + whole, 3, 6},
          {"offloaded", table("zero", 2, "stage = 3\noffload_optimizer = \"host\"\n") + whole, 2},
          {"tensor", table("tensor", 2) + whole, 2},
          {"tensor_by_heads", table("tensor", 2) + by_heads, 2},
          {"pipeline", table("pipeline", 2) + whole, 2},
          {"zero_and_tensor", table("zero", 2, "stage = 3\n") + table("tensor", 2) + whole, 4},
          {"zero_and_tensor_by_heads", table("zero", 2, "stage = 2\n") + table("tensor", 2) + by_heads, 4}};
}

class PreconditionedStack : public ::testing::TestWithParam<StackRow> {};

TEST_P(PreconditionedStack, TrainsAsOneRank) { expect_trains_as_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shampoo, PreconditionedStack, ::testing::ValuesIn(rows("shampoo")),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Soap, PreconditionedStack, ::testing::ValuesIn(rows("soap")),
                         [](const auto& info) { return info.param.name; });

const StoredParameter& parameter_of(const Program& program, const std::string& name) {
  return *std::find_if(program.parameters.begin(), program.parameters.end(),
                       [&](const StoredParameter& each) { return each.name == name; });
}

TEST(PreconditionedProgram, OneRankHasTheStatesOfAMatrix) {
  const host::Compiled compiled =
      compile_training(small_gpt2(table("zero", 4, "stage = 1\n") + group_of("shampoo"), 8, 2));
  const Program& program = compiled.program(0);
  for (const char* state : {"input_factor", "input_root", "output_factor", "output_root", "momentum"}) {
    std::set<BufferId> buffers;
    for (const char* name : {"h.0.attn.q.weight", "h.0.attn.k.weight", "h.0.attn.v.weight", "h.1.attn.q.weight",
                             "h.1.attn.k.weight", "h.1.attn.v.weight"}) {
      const StoredParameter& parameter = parameter_of(program, name);
      buffers.insert(parameter.states.at(state));
      std::vector<std::int64_t> elements;
      for (int rank = 0; rank < 4; ++rank) {
        elements.push_back(host::shard_of(program, parameter, parameter.states.at(state), rank).local_elements());
      }
      std::sort(elements.begin(), elements.end());
      EXPECT_EQ(elements, (std::vector<std::int64_t>{0, 0, 0, 16 * 16})) << name << " " << state;
    }
    // Six matrices on four ranks: two on a rank.
    EXPECT_EQ(buffers.size(), 2U) << state;
  }
}

TEST(PreconditionedProgram, ComputesRootsInEverySecondStepOnly) {
  const host::Compiled compiled = compile_training(small_gpt2(group_of("shampoo"), 8, 2));
  int roots = 0;
  for (const Task& task : compiled.program(0).tasks) {
    for (const Instruction& each : task.instructions) {
      if (!each.name.starts_with("h.0.attn.q.weight whole")) continue;
      const bool is_of_root = each.when == StepCondition{2, 0};
      EXPECT_TRUE(is_of_root || each.when.is_always()) << each.name;
      roots += is_of_root && each.name.ends_with("_root") ? 1 : 0;
      EXPECT_FALSE(each.name.ends_with("identity_minus") && !is_of_root);
    }
  }
  EXPECT_EQ(roots, 2);
}

/// Keeps the losses of evaluations.
struct EvaluationRecorder : host::RunRecorder {
  using RunRecorder::RunRecorder;
  void evaluation(const host::EvaluationRecord& record) override { losses.push_back(record.loss); }

  std::vector<double> losses;
};

class PreconditionedRun : public ::testing::TestWithParam<std::string> {
 protected:
  /// `stop_after`: 0 for a run that ends by itself.
  EvaluationRecorder run(const std::string& strategies, std::uint64_t stop_after,
                         const std::filesystem::path& resume = {}) {
    const host::RunSetup setup = host::prepare(
        host::parse_configuration(
            host::test::small_configuration(folder_), "small.toml",
            {"strategy=[" + strategies + "]", "device.plugin=reference", "run.eval_every=2", "run.eval_batches=2",
             "batch.global=12", "optimizer.schedule={kind=\"constant\"}",
             R"(optimizer.group=[{parameters=["h.*.attn.*.weight", "h.*.mlp.*.weight"], period=3, plugin=")" +
                 GetParam() + "\"}]"}),
        plugins_);
    const host::DataSource source = setup.open_data();
    EvaluationRecorder recorder(stop_after);
    host::Trainer trainer(setup, source, {folder_.path() / std::to_string(runs_++), 0, 0}, {resume}, recorder);
    static_cast<void>(trainer.run());
    return recorder;
  }

  host::test::TemporaryFolder folder_;
  BuiltPlugins plugins_;
  int runs_ = 0;
};

TEST_P(PreconditionedRun, ContinuesOnAnotherStack) {
  const std::vector<std::string> stacks = {"", R"({plugin="zero", size=3, stage=2})",
                                           R"({plugin="zero", size=2, stage=3}, {plugin="tensor", size=2})",
                                           R"({plugin="pipeline", size=2})"};
  const std::vector<double> whole = run("", 0).losses;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    // The roots or bases of step 3 are in the checkpoint of step 4.
    const EvaluationRecorder first = run(stacks[i], 4);
    const std::string& other = stacks[(i + 1) % stacks.size()];
    const std::vector<double> second = run(other, 0, first.last_checkpoint()).losses;
    ASSERT_EQ(second.size() + 1, whole.size());
    for (std::size_t k = 0; k < second.size(); ++k) {
      EXPECT_NEAR(second[k], whole[k + 1], 1e-4) << stacks[i] << " -> " << other << ", evaluation " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, PreconditionedRun, ::testing::Values("shampoo", "soap"));

}  // namespace
}  // namespace strata::testing

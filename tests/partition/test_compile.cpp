#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "random_strategy.hpp"
#include "small_model.hpp"
#include "stack_test.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class Compile : public ::testing::Test {
 protected:
  host::CompileRequest request(std::vector<std::shared_ptr<const Strategy>> strategies, std::int64_t global_batch = 8) {
    const auto model = std::make_shared<SmallModel>();
    host::CompileRequest request = runner_.request(model, global_batch, 2);
    int number = 0;
    for (auto& strategy : strategies)
      request.strategies.push_back({"strategy " + std::to_string(++number), std::move(strategy)});
    return request;
  }

  static std::shared_ptr<const RulesOnly> data_parallel(GradientBuckets buckets, const Axis& axis = "dp") {
    return std::make_shared<RulesOnly>(std::vector<MeshAxis>{{axis, 2}},
                                       std::vector<Rule>{{"batch", axis, 20, Distribution::block, {}}}, buckets);
  }

  static std::vector<const Instruction*> find(const Program& program, const std::string& task,
                                              const std::function<bool(const Instruction&)>& wanted) {
    std::vector<const Instruction*> found;
    for (const Task& each : program.tasks) {
      if (each.name != task) continue;
      for (const Instruction& instruction : each.instructions) {
        if (wanted(instruction)) found.push_back(&instruction);
      }
    }
    return found;
  }

  static bool is_bucket_reduction(const Instruction& instruction) {
    return instruction.is<Collective>() && instruction.name.starts_with("bucket");
  }

  static int count_op(const Program& program, const std::string& op) {
    int count = 0;
    for (const Task& task : program.tasks) {
      count += static_cast<int>(std::count_if(task.instructions.begin(), task.instructions.end(),
                                              [&](const Instruction& each) { return work_name(each) == op; }));
    }
    return count;
  }

  StackRunner runner_;
};

TEST_F(Compile, OverlappedReductionsRunInTheLastBackwardPass) {
  const host::Compiled compiled = host::compile(request({data_parallel({1, true})}));
  const Program& program = compiled.programs.front();
  ASSERT_EQ(program.micro_batches, 2);
  // There is one bucket per parameter, because each is larger than a byte.
  const auto reductions = find(program, "backward", is_bucket_reduction);
  EXPECT_EQ(reductions.size(), program.parameters.size());
  for (const Instruction* each : reductions) EXPECT_EQ(each->occurrence, Occurrence::last) << each->name;
  EXPECT_TRUE(find(program, "epilogue", is_bucket_reduction).empty());
  // The reductions start before the pass ends.
  const auto& backward = std::find_if(program.tasks.begin(), program.tasks.end(),
                                      [](const Task& task) { return task.name == "backward"; });
  const auto first = std::find_if(backward->instructions.begin(), backward->instructions.end(), is_bucket_reduction);
  EXPECT_LT(first - backward->instructions.begin(), static_cast<std::ptrdiff_t>(backward->instructions.size()) / 2);
  // Only the second micro-batch is the last.
  std::vector<bool> is_last;
  for (const TaskInstance& at : program.schedule) {
    if (program.tasks[static_cast<std::size_t>(at.task)].name == "backward") is_last.push_back(at.is_last);
  }
  EXPECT_EQ(is_last, (std::vector<bool>{false, true}));
}

TEST_F(Compile, WithoutOverlapReductionsStandInTheEpilogue) {
  const host::Compiled compiled = host::compile(request({data_parallel({1 << 20, false})}));
  const Program& program = compiled.programs.front();
  // Decayed and undecayed parameters share a bucket.
  EXPECT_EQ(find(program, "epilogue", is_bucket_reduction).size(), 1U);
  EXPECT_TRUE(find(program, "backward", is_bucket_reduction).empty());
}

TEST_F(Compile, NotesDimensionsThatARuleCouldNotDivide) {
  const auto rules = std::make_shared<RulesOnly>(std::vector<MeshAxis>{{"a", 3}, {"b", 2}},
                                                 std::vector<Rule>{{"out", "b", 20, Distribution::block, {}},
                                                                   {"out", "a", 30, Distribution::block, {}},
                                                                   {"embed", "a", 40, Distribution::block, {}},
                                                                   {"batch", "a", 50, Distribution::block, {}}});
  EXPECT_THAT(
      host::compile(request({rules}, 12)).notes,
      UnorderedElementsAre("strategy 1: dimension 'out' (8) is not split over 'a', because it is no multiple of "
                           "6 (b and a); 12 is",
                           "strategy 1: dimension 'embed' (4) is not split over 'a', because it is no multiple "
                           "of 3; 6 is"));
}

TEST_F(Compile, FusesWhereTheDeviceCanAndTrainsAlike) {
  host::CompileRequest fused_request = request({data_parallel({})});
  const host::Compiled fused = host::compile(fused_request);
  fused_request.device = nullptr;
  const host::Compiled plain = host::compile(fused_request);
  EXPECT_EQ(count_op(fused.programs.front(), "linear_bias_activation"), 2);
  EXPECT_EQ(count_op(fused.programs.front(), "linear_activation_gradient"), 2);
  EXPECT_EQ(count_op(fused.programs.front(), "linear_bias"), 0);
  EXPECT_EQ(count_op(fused.programs.front(), "dropout_add"), 2);
  EXPECT_EQ(count_op(fused.programs.front(), "sum"), 0);
  EXPECT_EQ(count_op(plain.programs.front(), "linear_bias"), 0);
  EXPECT_EQ(count_op(plain.programs.front(), "linear_bias_activation"), 0);
  EXPECT_GT(count_op(plain.programs.front(), "sum"), 0);
  const host::StackDifference difference = host::compare(runner_.run(fused), runner_.run(plain), plain.graph);
  EXPECT_LT(difference.worst(), 1e-12);
  EXPECT_LE(fused.plans.front().arena_bytes, plain.plans.front().arena_bytes);
}

TEST_F(Compile, RunsAreBitwiseEqual) {
  const host::Compiled compiled = host::compile(request({data_parallel({64, true})}));
  const host::StackResult one = runner_.run(compiled);
  const host::StackResult two = runner_.run(compiled);
  EXPECT_EQ(one.losses, two.losses);
  EXPECT_EQ(one.gradient_norms, two.gradient_norms);
  EXPECT_EQ(one.parameters, two.parameters);
}

TEST_F(Compile, EvaluationSharesTheParameters) {
  host::CompileRequest wanted = request({data_parallel({})});
  const host::Compiled training = host::compile(wanted);
  wanted.mode = GraphMode::evaluation;
  const host::Compiled evaluation = host::compile(wanted, &training);
  EXPECT_EQ(count_op(evaluation.programs.front(), "dropout") + count_op(evaluation.programs.front(), "dropout_add"), 0);
  for (const StoredParameter& parameter : evaluation.programs.front().parameters) {
    const auto& of_training = training.programs.front().parameters;
    const auto same = std::find_if(of_training.begin(), of_training.end(),
                                   [&](const auto& each) { return each.name == parameter.name; });
    ASSERT_NE(same, of_training.end());
    EXPECT_EQ(evaluation.plans.front().offset(parameter.value, -1), training.plans.front().offset(same->value, -1))
        << parameter.name;
  }
}

TEST_F(Compile, KeepsOnlyTheOutputsThatAreAskedFor) {
  host::CompileRequest wanted = request({}, 2);
  wanted.mode = GraphMode::evaluation;
  wanted.outputs = {"logits"};
  const host::Compiled compiled = host::compile(wanted);
  EXPECT_TRUE(compiled.programs.front().reports.contains("logits"));
  EXPECT_FALSE(compiled.programs.front().reports.contains("loss"));
  EXPECT_EQ(count_op(compiled.programs.front(), "row_max"), 0);
}

TEST_F(Compile, RefusesTwoStrategiesOnOneAxis) {
  try {
    static_cast<void>(host::compile(request({data_parallel({}), data_parallel({})})));
    FAIL() << "accepted";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("strategy 2"), HasSubstr("'dp'")));
  }
}

TEST_F(Compile, RefusesAnAxisThatShardsNothing) {
  const auto idle = std::make_shared<RulesOnly>(std::vector<MeshAxis>{{"xp", 3}},
                                                std::vector<Rule>{{"expert", "xp", 20, Distribution::block, {}}});
  try {
    static_cast<void>(host::compile(request({idle})));
    FAIL() << "accepted";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'xp'"), HasSubstr("shards nothing")));
  }
}

/// Nobody can choose another size of it.
TEST_F(Compile, NamesWhatADerivedSizeIsComputedFrom) {
  class Mixture final : public Model {
   public:
    [[nodiscard]] DimSizes sizes() const override { return {{"seq", 4}, {"vocab", 8}}; }
    void build(GraphBuilder& b) const override {
      b.derive_dim("capacity", 6, "capacity_factor and the experts");
      const Value table = b.parameter("table", {"vocab", "capacity"}, Initialization::normal(0.5), true);
      const Value x = b.embedding(table, b.input("tokens", {"batch", "seq"}), "token");
      const Value logits = b.linear(x, table, {"batch", "seq", "vocab"}, "logits");
      b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
    }
  };
  host::CompileRequest wanted = request({std::make_shared<RulesOnly>(
      std::vector<MeshAxis>{{"xp", 4}}, std::vector<Rule>{{"capacity", "xp", 20, Distribution::block, {}}})});
  wanted.model = std::make_shared<Mixture>();
  wanted.sizes = wanted.model->sizes();
  try {
    static_cast<void>(host::compile(wanted));
    FAIL() << "accepted";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("shards nothing: found capacity = 6 (computed from capacity_factor and the "
                          "experts); accepted: settings that make it a multiple of the sizes of all axes"));
  }
}

TEST_F(Compile, RefusesARuleForAnUnknownAxis) {
  const auto lost = std::make_shared<RulesOnly>(std::vector<MeshAxis>{},
                                                std::vector<Rule>{{"batch", "dp", 20, Distribution::block, {}}});
  EXPECT_THROW(static_cast<void>(host::compile(request({lost}))), ConfigurationError);
}

TEST_F(Compile, RefusesABatchThatReplicasDoNotDivide) {
  EXPECT_THROW(static_cast<void>(host::compile(request({data_parallel({})}, 6))), ConfigurationError);
}

TEST_F(Compile, NamesTheStrategyWhoseRewriteBreaksTheGraph) {
  class Breaker final : public Strategy {
   public:
    void rewrite(Graph& graph, const OpRegistry&) const override {
      std::vector<Node> reversed(graph.nodes().rbegin(), graph.nodes().rend());
      graph.replace_nodes(std::move(reversed));
    }
  };
  try {
    static_cast<void>(host::compile(request({std::make_shared<Breaker>()})));
    FAIL() << "accepted";
  } catch (const VerificationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the rewrite of strategy 1"), HasSubstr("before it is defined")));
  }
}

}  // namespace
}  // namespace strata::testing

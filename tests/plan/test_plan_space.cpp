#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "plan/plan_evaluation.hpp"
#include "plan/plan_report.hpp"
#include "plan_fixture.hpp"
#include "strata/error.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing {
namespace {

using host::EvaluatedPlan;
using host::PlanChoice;
using host::PlanDemands;
using host::PlanSpace;
using host::RunConfiguration;
using host::test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The structures with each proposal for replicas and for memory.
std::vector<PlanChoice> all_choices(const PlanSpace& space) {
  std::vector<PlanChoice> choices;
  for (const PlanChoice& structure : space.structures()) {
    const int replicas = static_cast<int>(space.parts(PlanPurpose::replicas, structure).size());
    for (int replica = replicas > 0 ? 0 : -1; replica < replicas; ++replica) {
      for (const int memory : {-1, 0, 1}) {
        choices.push_back(structure);
        choices.back().parts[PlanPurpose::replicas] = replica;
        choices.back().parts[PlanPurpose::memory] = memory;
      }
    }
  }
  return choices;
}

bool has(const RunConfiguration& configuration, const std::string& plugin) {
  return std::any_of(configuration.strategies.begin(), configuration.strategies.end(),
                     [&](const auto& each) { return each.plugin == plugin; });
}

TEST_F(Plans, UseAllDevicesAndKeepTheStrategiesThatNobodyProposes) {
  const PlanSpace plans = space();
  std::set<std::string> texts;
  for (const PlanChoice& choice : all_choices(plans)) {
    const host::RunSetup setup = host::prepare(plans.configuration(choice), registry_);
    EXPECT_EQ(setup.stack.mesh.rank_count(), 8) << plans.text(choice);
    EXPECT_EQ(setup.configuration.strategies.back().plugin, "precision") << plans.text(choice);
    EXPECT_TRUE(texts.insert(plans.text(choice)).second) << plans.text(choice);
  }
  EXPECT_GT(texts.size(), 50U);
}

constexpr const char* kResNet = R"(
[model]
plugin = "resnet"
layers = [1, 1]
planes = 4
image = 32
[data]
plugin = "images"
paths = ["none"]
)";
constexpr const char* kMixture = R"(
[data]
plugin = "text"
path = "none"
tokenizer = "bytes"
[model]
plugin = "mixture"
layers = 2
heads = 2
embed = 16
experts = 4
context = 16
)";

/// The batch norms of the ResNet and the means of the mixture's loss are those of 8 samples, on two replicas or any
/// other number. Other losses of a mixture, and its metrics, leave the samples free.
TEST_F(Plans, KeepTheSamplesThatResultsDependOn) {
  const auto joint_samples = [&](const std::string& model) {
    const PlanSpace plans(host::parse_configuration(model + R"(
[batch]
global = 16
micro = 4
[[strategy]]
plugin = "ddp"
size = 2
)",
                                                    "plan.toml"),
                          registry_, cluster_, 256, {});
    std::set<std::int64_t> joint;
    std::set<std::int64_t> micro_batches;
    for (const PlanChoice& choice : all_choices(plans)) {
      for (const std::int64_t size : plans.micro_batches(choice)) {
        joint.insert(size * plans.replicas(choice));
        micro_batches.insert(size);
      }
    }
    EXPECT_GT(micro_batches.size(), 1U);
    return joint;
  };
  const std::set<std::int64_t> kept{8};
  EXPECT_EQ(joint_samples(kResNet), kept);
  EXPECT_EQ(joint_samples(std::string(kMixture) + "switch_loss = 0.01\n"), kept);
  EXPECT_GT(joint_samples(std::string(kMixture) + "balance_loss = 0.01\nz_loss = 0.01\nbalance_bias = 0.01\n").size(),
            1U);
}

/// Two workers that train apart stay, and the plans are for the four ranks that each of them has.
TEST_F(Plans, LeaveDevicesToStrategiesThatStay) {
  const auto space_beside = [&](const PlanDemands& demands) {
    RunConfiguration configuration = host::parse_configuration(kConfiguration, "plan.toml");
    configuration.strategies.push_back({"strategy.2", "localsgd", {{"size", OptionValue(std::int64_t{2})}}});
    return PlanSpace(configuration, registry_, cluster_, 256, demands);
  };
  const PlanSpace plans = space_beside({});
  EXPECT_EQ(plans.devices(), 8);
  std::set<int> replicas;
  for (const PlanChoice& choice : plans.structures()) {
    EXPECT_EQ(plans.micro_batches(choice).back() * plans.replicas(choice), 8) << "of 16 samples, half are a worker's";
    replicas.insert(plans.replicas(choice));
  }
  EXPECT_THAT(replicas, ::testing::ElementsAre(1, 2, 4));
  // The search goes on with fewer devices.
  const PlanSpace odd = space_beside({.devices = 5});
  EXPECT_THAT(odd.structures(), ::testing::IsEmpty());
  EXPECT_THAT(host::describe_nearest_miss(odd, {}), HasSubstr("use 2 ranks, which do not divide the 5 devices"));
}

TEST_F(Plans, CompileOrSayWhyNot) {
  const PlanSpace plans = space();
  int compiled = 0;
  for (PlanChoice choice : plans.structures()) {
    choice.parts[PlanPurpose::replicas] = plans.parts(PlanPurpose::replicas, choice).empty() ? -1 : 0;
    const host::RunSetup setup = host::prepare(plans.configuration(choice), registry_);
    try {
      const auto programs = setup.compile(setup.request(GraphMode::training, setup.sizes(plans.data())));
      EXPECT_EQ(programs.mesh.rank_count(), 8);
      ++compiled;
    } catch (const ConfigurationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("accepted")) << plans.text(choice);
    }
  }
  EXPECT_GT(compiled, 5);
}

TEST_F(Plans, MeetDemands) {
  const PlanSpace fixed = space({.fixed = {"tensor=2", "zero.stage=3"}, .never = {"pipeline"}});
  for (const PlanChoice& choice : all_choices(fixed)) {
    const std::string text = fixed.text(choice);
    EXPECT_THAT(text, AllOf(HasSubstr("tensor 2"), HasSubstr("zero 4"), HasSubstr("stage=3"))) << text;
    EXPECT_FALSE(has(fixed.configuration(choice), "pipeline")) << text;
  }
}

struct BadDemand {
  PlanDemands demands;
  std::vector<std::string> words;
};

TEST_F(Plans, RefuseDemandsThatNothingMeets) {
  const std::vector<BadDemand> rows = {
      {{.fixed = {"tensor"}}, {"--fix: found 'tensor'", "tensor=8 or zero.stage=3"}},
      {{.fixed = {"tensor=3"}}, {"--fix: found 'tensor=3'", "2, 4, 8 ranks"}},
      {{.fixed = {"tensr=2"}}, {"--fix: found 'tensr'", "accepted: context, ddp, expert, layout, pipeline"}},
      {{.fixed = {"zero.level=2"}}, {"--fix: zero has no option 'level'"}},
      {{.fixed = {"recompute.policy=no"}}, {"no proposal of recompute meets; it proposes policy=full, selective"}},
      {{.fixed = {"zero.stage=3"}, .never = {"zero"}}, {"--fix: found 'zero.stage=3' beside --never zero"}},
      {{.fixed = {"recompute.policy=full"}, .never = {"recompute"}}, {"beside --never recompute; accepted: one of"}},
      {{.fixed = {"zero=2", "ddp=2"}}, {"--fix: found 'zero=2' beside 'ddp=2'"}},
      {{.never = {"precision"}}, {"--never: found 'precision'", "accepted: context, ddp"}},
  };
  for (const BadDemand& row : rows) {
    const std::string message = message_of<ConfigurationError>([&] {
      const PlanSpace plans = space(row.demands);
      for (const PlanChoice& choice : plans.structures()) (void)plans.parts(PlanPurpose::replicas, choice);
    });
    for (const std::string& word : row.words) EXPECT_THAT(message, HasSubstr(word));
  }
}

/// Without a strategy for replicas, no plan leaves devices idle.
TEST_F(Plans, UseAllDevicesWithoutReplicas) {
  const PlanSpace plans = space({.never = {"ddp", "zero"}});
  EXPECT_FALSE(plans.structures().empty());
  for (const PlanChoice& choice : plans.structures()) EXPECT_EQ(plans.replicas(choice), 1) << plans.text(choice);
  const PlanSpace none = space({.fixed = {"zero.stage=4"}, .never = {"context"}});
  EXPECT_THAT(none.structures(), ::testing::IsEmpty());
  EXPECT_THAT(host::describe_nearest_miss(none, {}), HasSubstr("with --fix zero.stage=4, --never context; accepted"));
}

TEST_F(Plans, MicroBatchesDivideTheGlobalBatch) {
  const PlanSpace plans = space();
  PlanChoice choice;
  EXPECT_EQ(plans.replicas(choice), 8);
  EXPECT_EQ(plans.micro_batches(choice), (std::vector<std::int64_t>{1, 2}));
}

}  // namespace
}  // namespace strata::testing

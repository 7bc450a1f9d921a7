#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "cluster/cluster_file.hpp"
#include "setup/tuning.hpp"
#include "simulate/prediction.hpp"
#include "simulate/simulated_cluster.hpp"
#include "strata/error.hpp"
#include "train/temporary_folder.hpp"
#include "verify/verification.hpp"

namespace strata::testing {
namespace {

using host::Cluster;
using host::RunConfiguration;
using host::RunSetup;
using host::StepPrediction;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A GPT-2 of six layers on four stages. `vocab`: as many times the width is the head's part of the work.
RunConfiguration gpt2(const std::string& options, std::int64_t vocab) {
  RunConfiguration configuration = small_gpt2("[[strategy]]\nplugin = \"pipeline\"\nsize = 4\n" + options, 8, 1);
  const auto set = [&](const char* name, std::int64_t value) { configuration.model.options[name] = value; };
  set("layers", 6);
  set("heads", 4);
  set("embed", 256);
  set("context", 256);
  set("vocab", vocab);
  return configuration;
}

/// The message with which `call` is refused.
template <class Call>
std::string refusal_of(const Call& call) {
  return host::test::message_of<ConfigurationError>(call);
}

constexpr std::int64_t kLargeVocabulary = 20000;
constexpr std::int64_t kTinyVocabulary = 16;

class Tuning : public ::testing::Test {
 protected:
  Tuning() { cluster_.groups.front().device.memory_bytes = std::int64_t{80} << 30; }

  RunSetup tuned(const RunConfiguration& configuration) {
    RunSetup setup = host::prepare(configuration, plugins_);
    const DimSizes sizes = setup.sizes_without_data();
    host::tune(setup, plugins_, cluster_, sizes);
    return setup;
  }

  /// The step of a whole compilation.
  StepPrediction step(const RunSetup& setup) {
    const host::Compiled compiled = setup.compile(setup.request(GraphMode::training, setup.sizes_without_data()));
    return host::simulate_step(compiled, *setup.ops, cluster_);
  }
  StepPrediction step(RunConfiguration configuration, const std::string& schedule, const std::string& split) {
    configuration.strategies[0].options["schedule"] = schedule;
    configuration.strategies[0].options["split"] = split;
    return step(host::prepare(configuration, plugins_));
  }

  static std::string option(const RunSetup& setup, const char* name) {
    return std::get<std::string>(setup.configuration.strategies[0].options.at(name));
  }

  BuiltPlugins plugins_;
  Cluster cluster_ = round_cluster(1);
};

/// Calls `call` with all ways to divide `blocks` into four chunks.
void for_each_split(int blocks, const std::function<void(const std::string&)>& call) {
  for (int a = 1; a <= blocks - 3; ++a) {
    for (int b = 1; a + b <= blocks - 2; ++b) {
      for (int c = 1; a + b + c < blocks; ++c) {
        std::string split;
        for (const int each : {a, b, c, blocks - a - b - c}) split += (split.empty() ? "" : ",") + std::to_string(each);
        call(split);
      }
    }
  }
}

TEST_F(Tuning, FindsTheBestOfAllBoundaries) {
  const RunConfiguration configuration = gpt2("split = \"auto\"\n", kLargeVocabulary);
  const RunSetup setup = tuned(configuration);
  const double found = step(setup).seconds;
  for_each_split(8, [&](const std::string& split) {
    EXPECT_GE(step(configuration, "1f1b", split).seconds, found * (1 - 1e-9)) << split;
  });
  EXPECT_LT(found, 0.95 * step(configuration, "1f1b", "even").seconds);
  EXPECT_EQ(option(setup, "schedule"), "1f1b");
  EXPECT_EQ(option(setup, "split").back(), '1') << "the head fills the last stage";
}

TEST_F(Tuning, FindsTheBestSchedule) {
  const RunConfiguration configuration = gpt2("schedule = \"auto\"\n", kLargeVocabulary);
  const RunSetup setup = tuned(configuration);
  const double found = step(setup).seconds;
  for (const char* schedule : {"naive", "gpipe", "1f1b", "zb-h1", "zbv"}) {
    for (const char* split : {"cost", "even"}) {
      EXPECT_GE(step(configuration, schedule, split).seconds, found * (1 - 1e-9)) << schedule << ' ' << split;
    }
  }
  ASSERT_EQ(setup.decisions.size(), 1U);
  EXPECT_THAT(setup.decisions[0], AllOf(HasSubstr("strategy 1 'pipeline' by simulation on round: schedule = "),
                                        HasSubstr("split = "), HasSubstr("with even chunks")));
}

/// The embedding and the head take next to no time.
TEST_F(Tuning, DealsEqualLayersEvenly) {
  RunConfiguration configuration = gpt2("split = \"auto\"\n", kTinyVocabulary);
  configuration.model.options["layers"] = OptionValue(std::int64_t{8});
  EXPECT_EQ(option(tuned(configuration), "split"), "3,2,2,3");
  EXPECT_EQ(option(tuned(gpt2("split = \"even\"\n", kTinyVocabulary)), "split"), "even") << "nothing is open";
}

/// The fastest alternative needs more memory than another one. A device without it takes the other.
TEST_F(Tuning, TakesWhatFits) {
  const RunConfiguration configuration = gpt2("schedule = \"auto\"\n", kLargeVocabulary);
  const StepPrediction fastest = step(tuned(configuration));
  const StepPrediction naive = step(configuration, "naive", "cost");
  ASSERT_LT(naive.peak_bytes, fastest.peak_bytes);
  cluster_.groups.front().device.memory_bytes = fastest.peak_bytes - 1;
  const StepPrediction other = step(tuned(configuration));
  EXPECT_LT(other.peak_bytes, fastest.peak_bytes);
  EXPECT_LT(other.seconds, naive.seconds);
}

TEST_F(Tuning, DecidesAlikeAndKeepsWhatIsGiven) {
  const RunConfiguration configuration = gpt2("schedule = \"auto\"\n", kLargeVocabulary);
  const RunSetup setup = tuned(configuration);
  EXPECT_EQ(to_toml(tuned(configuration).configuration), to_toml(setup.configuration));
  EXPECT_EQ(to_toml(tuned(setup.configuration).configuration), to_toml(setup.configuration)) << "nothing is open now";
  EXPECT_TRUE(tuned(setup.configuration).decisions.empty());
  const RunSetup given = tuned(gpt2("schedule = \"auto\"\nsplit = \"2,2,2,2\"\n", kLargeVocabulary));
  EXPECT_EQ(option(given, "split"), "2,2,2,2");
  EXPECT_NE(option(given, "schedule"), "auto");
}

TEST_F(Tuning, RefusesWhatItCannotDecide) {
  RunSetup setup = host::prepare(gpt2("schedule = \"auto\"\n", kLargeVocabulary), plugins_);
  EXPECT_THAT(
      refusal_of([&] { host::tune(setup, plugins_); }),
      AllOf(HasSubstr("strategy.0: 'pipeline' has options that are chosen by simulation"), HasSubstr("[cluster]")));
  EXPECT_THAT(
      refusal_of([&] {
        static_cast<void>(host::prepare(gpt2("schedule = \"auto\"\nvirtual_stages = 3\n", kLargeVocabulary), plugins_));
      }),
      HasSubstr("found 3 with schedule \"auto\", which chooses them"));
  RunConfiguration few = gpt2("schedule = \"auto\"\n", kLargeVocabulary);
  few.model.options["layers"] = OptionValue(std::int64_t{1});
  EXPECT_THAT(refusal_of([&] { tuned(few); }), HasSubstr("accepted: at most 3 chunks in all"));
}

/// Verification decides as training does: with the cluster of the configuration, and with its data.
TEST(TunedStack, TrainsAsOneRank) {
  const host::test::TemporaryFolder folder;
  const std::string path = folder.file("text.txt", std::string(4096, 'a')).string();
  Cluster cluster = round_cluster(1);
  cluster.groups.front().name = "node";
  cluster.groups.front().device.memory_bytes = 1 << 30;
  const std::string machines = folder.file("round.toml", host::to_toml(cluster)).string();
  RunConfiguration configuration =
      small_gpt2("[[strategy]]\nplugin = \"pipeline\"\nsize = 4\nschedule = \"auto\"\n[cluster]\nbased_on = \"" +
                     machines + "\"\n",
                 8, 1);
  configuration.data.dataset.options["path"] = path;
  configuration.data.dataset.options["tokenizer"] = std::string("bytes");
  configuration.model.options["vocab"] = OptionValue(std::int64_t{256});
  configuration.model.options["layers"] = OptionValue(std::int64_t{6});
  BuiltPlugins plugins;
  const host::Verification verification = host::verify_stack(configuration, plugins, {3, true});
  EXPECT_LT(verification.difference.worst(), 1e-9) << verification.difference.worst_parameter;
  EXPECT_NE(std::get<std::string>(verification.configuration.strategies[0].options.at("schedule")), "auto");
  EXPECT_NE(std::get<std::string>(verification.configuration.strategies[0].options.at("split")), "cost");
}

}  // namespace
}  // namespace strata::testing

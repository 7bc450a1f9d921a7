#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "build_paths.hpp"
#include "train/command_runner.hpp"

namespace strata::host::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRun = R"(
[model]
plugin = "gpt2"
layers = 2
heads = 2
embed = 64
context = 16
[data]
plugin = "text"
path = "missing.txt"
[batch]
global = 8
micro = 2
[device]
plugin = "cpu"
[communicator]
plugin = "local"
)";

/// The cluster "two-core", on which a product takes `alone` seconds for one rank, and `together` for each of two.
std::string measured_cores(double alone, double together) {
  const auto point = [](int busy, double seconds) {
    return fmt::format("{{ work = \"linear\", dtype = \"f32\", shape = [1, 32, 64, 64], busy = {}, seconds = {} }}",
                       busy, seconds);
  };
  return fmt::format(R"(
[cluster]
name = "here"
based_on = "two-core"
[cluster.device.cores]
based_on = "two-core"
points = [{}, {}]
[[cluster.group]]
name = "machine"
device = "cores"
)",
                     point(1, alone), point(2, together));
}

class PlansOfCores : public ::testing::Test {
 protected:
  CommandResult plan(const std::string& cluster, const std::vector<std::string>& demands = {}) {
    const std::string run = (folder_.path() / "run.toml").string();
    std::ofstream(run) << kRun;
    std::vector<std::string> words = {"plan", run, "--cluster", cluster, "--vocab", "64"};
    words.insert(words.end(), demands.begin(), demands.end());
    return run_command(words);
  }
  CommandResult plan_on(double alone, double together, const std::vector<std::string>& demands = {}) {
    const std::string file = (folder_.path() / "cluster.toml").string();
    std::ofstream(file) << measured_cores(alone, together);
    return plan(file, demands);
  }

  TemporaryFolder folder_;
};

TEST_F(PlansOfCores, HaveOneRankWhereItIsFaster) {
  const CommandResult found = plan_on(1e-5, 1e-3);
  ASSERT_EQ(found.exit_code, 0) << found.messages;
  EXPECT_THAT(found.out, HasSubstr("plans for 1 of 2 devices"));
  EXPECT_THAT(found.out, HasSubstr("     2 devices: "));
  EXPECT_THAT(found.out, HasSubstr("     1 devices: "));
}

TEST_F(PlansOfCores, HaveARankPerCoreWhereThatIsFaster) {
  const CommandResult found = plan_on(1e-3, 1e-5);
  ASSERT_EQ(found.exit_code, 0) << found.messages;
  EXPECT_THAT(found.out, Not(HasSubstr("plans for 1 of 2 devices")));
  EXPECT_THAT(found.out, HasSubstr("     1 devices: "));
}

/// A demand that no plan of one rank meets ends the search there.
TEST_F(PlansOfCores, HaveAsManyRanksAsADemandNeeds) {
  const CommandResult found = plan_on(1e-5, 1e-3, {"--fix", "tensor=2"});
  ASSERT_EQ(found.exit_code, 0) << found.messages;
  EXPECT_THAT(found.out, HasSubstr("tensor 2"));
}

/// A search may take minutes, so the place of its result is checked before.
TEST_F(PlansOfCores, HaveAPlaceBeforeTheyAreSearched) {
  const std::string link = (folder_.path() / "link.toml").string();
  std::filesystem::create_symlink("file.toml", link);
  for (const auto& [output, message] :
       {std::pair{std::string("/nowhere/plan.toml"), "there is no folder '/nowhere'; accepted: a file in a folder"},
        std::pair{link, "is a symbolic link; accepted: the name of the file itself"}}) {
    const CommandResult found = plan("two-core", {output, "--devices", "99"});
    EXPECT_EQ(found.exit_code, 2);
    EXPECT_THAT(found.messages, HasSubstr(message));
  }
}

/// What threads gain is not known of a published machine.
TEST_F(PlansOfCores, HaveARankPerCoreWhereNothingIsMeasured) {
  const CommandResult found = plan("two-core");
  ASSERT_EQ(found.exit_code, 0) << found.messages;
  EXPECT_THAT(found.out, Not(HasSubstr("1 devices: ")));
}

}  // namespace
}  // namespace strata::host::test

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "log/run_log.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class Metrics : public ::testing::Test {
 protected:
  [[nodiscard]] RunConfiguration configuration() const {
    RunConfiguration made;
    made.run.name = "a \"name\"";
    made.run.steps = 90;
    made.log.metrics = (folder_.path() / "run.prom").string();
    made.log.heartbeat = (folder_.path() / "beat").string();
    return made;
  }
  /// The value of a metric, or "" if it is missing.
  [[nodiscard]] std::string value(const std::string& name) const {
    std::ifstream file(configuration().log.metrics);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("strata_" + name + "{")) return line.substr(line.rfind(' ') + 1);
    }
    return "";
  }

  test::TemporaryFolder folder_;
};

TEST_F(Metrics, AreThoseOfTheLastStep) {
  MetricsFile file(configuration(), 2);
  file.clear();
  EXPECT_EQ(value("running"), "1");
  EXPECT_EQ(value("restarts_total"), "2");
  EXPECT_EQ(value("loss"), "") << "no step yet";
  file.step({.step = 7, .loss = 2.5, .tokens_per_second = 1000, .seconds = 0.5, .memory = {.resident_bytes = 8192}});
  file.evaluation({.step = 7, .loss = std::nan("")});
  file.checkpoint({.step = 7, .path = {}});
  EXPECT_EQ(value("step"), "7");
  EXPECT_EQ(value("steps"), "90");
  EXPECT_EQ(value("loss"), "2.5");
  EXPECT_EQ(value("tokens_per_second"), "1000");
  EXPECT_EQ(value("resident_bytes"), "8192");
  EXPECT_EQ(value("validation_loss"), "NaN");
  EXPECT_EQ(value("checkpoint_step"), "7");
  file.message({false, "a warning"});
  EXPECT_EQ(value("running"), "1");
  file.message({true, "the run failed"});
  EXPECT_EQ(value("running"), "0");
  EXPECT_THAT(test::read_file(configuration().log.heartbeat),
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+[.][0-9]{3}Z step 7\n"));
  EXPECT_EQ(file.failure(), std::nullopt);
}

/// Every line is a comment or a sample of the text format, so that one bad line does not lose all of them.
TEST_F(Metrics, AreInTheTextFormatOfPrometheus) {
  MetricsFile file(configuration(), 0);
  file.step({.step = 1, .loss = INFINITY, .seconds = 0.5});
  std::ifstream stream(configuration().log.metrics);
  int samples = 0;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("# ")) {
      EXPECT_THAT(line, MatchesRegex("# (HELP strata_[a-z_]+ .+|TYPE strata_[a-z_]+ (gauge|counter))"));
      continue;
    }
    ++samples;
    EXPECT_THAT(line, MatchesRegex(R"(strata_[a-z_]+\{run="a \\"name\\"",host="[^"]*"\} (NaN|[+-]Inf|[-+.e0-9]+))"));
  }
  EXPECT_GT(samples, 10);
  EXPECT_EQ(value("loss"), "+Inf");
}

TEST_F(Metrics, NeedAFolderAndOutliveItsLoss) {
  RunConfiguration elsewhere = configuration();
  elsewhere.log.metrics = "/nowhere/run.prom";
  EXPECT_THAT(test::message_of<ConfigurationError>([&] { MetricsFile(elsewhere, 0); }),
              HasSubstr("log.metrics: '/nowhere/run.prom': there is no folder '/nowhere'"));

  const std::filesystem::path folder = folder_.path() / "removed";
  std::filesystem::create_directory(folder);
  elsewhere.log.metrics = (folder / "run.prom").string();
  MetricsFile file(elsewhere, 0);
  std::filesystem::remove(folder);
  file.step({.step = 1});
  EXPECT_THAT(file.failure().value_or(""), AllOf(HasSubstr("log.metrics: "), HasSubstr("run.prom")));
}

TEST(Restarts, AreWhatTheLauncherSays) {
  EXPECT_EQ(restarts_so_far(), 0);
  ::setenv("SLURM_RESTART_COUNT", "3", 1);
  EXPECT_EQ(restarts_so_far(), 3);
  ::setenv("STRATA_RESTARTS", "1", 1);
  EXPECT_EQ(restarts_so_far(), 1);
  ::unsetenv("SLURM_RESTART_COUNT");
  ::unsetenv("STRATA_RESTARTS");
}

}  // namespace
}  // namespace strata::host

// The loss scale in the reports of a run and in its checkpoints.

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/checkpoint_manifest.hpp"
#include "log/progress.hpp"
#include "log/run_log.hpp"
#include "strata/error.hpp"
#include "train/temporary_folder.hpp"

namespace strata::host {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StepRecord skipped_step() {
  StepRecord record;
  record.step = 3;
  record.loss = 2.5;
  record.gradient_norm = std::nan("");
  record.seconds = 1;
  record.loss_scale = 32768;
  record.skipped = true;
  return record;
}

TEST(LossScaleReports, AreInTheLogWhereTheLossIsScaled) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "log.jsonl";
  {
    TrainingLog log(path);
    log.step(skipped_step());
    log.step({});
  }
  std::istringstream lines(test::read_file(path));
  std::string first;
  std::string second;
  std::getline(lines, first);
  std::getline(lines, second);
  const auto step = nlohmann::json::parse(first);
  EXPECT_EQ(step.at("loss_scale"), 32768.0);
  EXPECT_EQ(step.at("skipped"), true);
  EXPECT_TRUE(step.at("grad_norm").is_null());
  EXPECT_THAT(second, Not(HasSubstr("loss_scale")));
}

TEST(LossScaleReports, SayThatAStepIsSkippedWheneverItIs) {
  std::ostringstream stream;
  {
    Progress progress(stream, {.terminal = false, .every = 100}, 0, 1000);
    progress.step(skipped_step());
  }
  EXPECT_EQ(stream.str(), "step 3 skipped: the gradient is not finite at a loss scale of 32768\n");
}

TEST(LossScaleReports, ReachTheCheckpoint) {
  Manifest manifest;
  manifest.run.loss_scaler = {.scale = 4096, .good_steps = 17, .skipped_steps = 3};
  EXPECT_EQ(manifest_from_json(to_json(manifest)), manifest);
  manifest.run.loss_scaler->scale = -1;
  EXPECT_THROW((void)manifest_from_json(to_json(manifest)), RuntimeError);
}

}  // namespace
}  // namespace strata::host

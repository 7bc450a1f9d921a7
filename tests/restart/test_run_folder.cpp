#include <sys/stat.h>

#include "restart_fixture.hpp"
#include "train/run_folder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::CommandResult;
using test::run_command;
using ::testing::HasSubstr;

class OutputFolders : public test::RestartFixture {
 protected:
  void run(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"--set", "run.steps=2"};
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult result = run_command(train(output, all));
    ASSERT_EQ(result.exit_code, 0) << result.messages;
  }
  void expect_refusal(const std::string& output, const std::vector<std::string>& more,
                      const std::vector<std::string>& parts) const {
    const std::string before = tensors(output);
    const CommandResult result = run_command(train(output, more));
    EXPECT_EQ(result.exit_code, 2) << result.messages;
    for (const std::string& part : parts) EXPECT_THAT(result.messages, HasSubstr(part));
    EXPECT_TRUE(tensors(output) == before) << "the checkpoint was touched";
  }
  [[nodiscard]] std::string identity(const std::string& output) const { return stored_identity(path(output)); }
};

TEST_F(OutputFolders, ASecondStartDoesNotOverwriteTheFirst) {
  run("output");
  const std::string first = identity("output");
  EXPECT_EQ(first.size(), 32U);
  EXPECT_EQ(CheckpointReader(find_checkpoint(path("output"))).run().identity, first);
  expect_refusal("output", {"--steps", "4"},
                 {"run.output: '" + path("output") +
                  "' holds checkpoints, the newest of step 2; accepted: --resume "
                  "auto to continue that run, another run.output, or --overwrite"});
  EXPECT_EQ(log("output").size(), 5U) << "the log was touched";

  run("output", {"--resume", "auto", "--steps", "3"});
  EXPECT_EQ(identity("output"), first);
  run("output", {"--overwrite", "--steps", "1"});
  EXPECT_NE(identity("output"), first);
  EXPECT_FALSE(fs::exists(path("output/checkpoints/step-00000003")));
  EXPECT_EQ(CheckpointReader(find_checkpoint(path("output"))).run().step, 1U);
}

TEST_F(OutputFolders, OfAnotherRunAreNotContinued) {
  run("ours");
  run("theirs");
  const std::string checkpoint = "/checkpoints/step-00000002";
  const std::vector<std::string> resume{"--resume", "auto", "--steps", "4"};

  fs::remove_all(path("ours") + checkpoint);
  fs::copy(path("theirs") + checkpoint, path("ours") + checkpoint, fs::copy_options::recursive);
  expect_refusal("ours", resume,
                 {"run.output: '" + path("ours") + "' holds 'step-00000002' of the run " + identity("theirs") +
                      ", but the folder is of the run " + identity("ours"),
                  "accepted: another run.output, --resume ", ", or --overwrite"});

  fs::remove(path("theirs/run-id"));
  expect_refusal("theirs", resume, {"but the folder is of no run (it has no run-id)"});
  // Naming it is a decision.
  run("theirs", {"--resume", path("theirs"), "--steps", "3"});
  run("theirs", resume);
}

TEST_F(OutputFolders, WithADamagedIdentityAreContinuedFromANamedCheckpoint) {
  const std::vector<std::string> often{"--set", "run.checkpoint_every=1"};
  run("output", often);
  const std::string first = identity("output");
  std::ofstream(path("output/run-id")) << first.substr(3) << '\n';
  const std::vector<std::string> resume{"--resume", "auto", "--steps", "4"};
  expect_refusal("output", resume, {"but the folder is of no run (its run-id is damaged)"});
  run("output", {"--resume", path("output/checkpoints/step-00000002"), "--steps", "3"});
  EXPECT_EQ(identity("output"), first);
  run("output", resume);
}

TEST_F(OutputFolders, AreContinuedFromAnotherFolderOnlyIfEmpty) {
  run("first");
  run("second");
  expect_refusal("second", {"--resume", path("first"), "--steps", "4"},
                 {"holds checkpoints, the newest of step 2, and '" + path("first"), "accepted: another run.output"});
  run("third", {"--resume", path("first"), "--steps", "4"});
  EXPECT_NE(identity("third"), identity("first"));
}

/// Opening a pipe for reading waits until somebody writes.
TEST_F(OutputFolders, DoNotWaitForAWriterOfAPipe) {
  run("output");
  const std::vector<std::string> resume{"--resume", "auto", "--steps", "3"};
  const std::string latest = path("output/checkpoints/latest");
  fs::remove(latest);
  ASSERT_EQ(::mkfifo(latest.c_str(), 0600), 0);
  run("output", resume);
  EXPECT_TRUE(fs::is_regular_file(latest));
  fs::remove(path("output/run-id"));
  ASSERT_EQ(::mkfifo(path("output/run-id").c_str(), 0600), 0);
  expect_refusal("output", resume, {"but the folder is of no run (its run-id is damaged)"});
}

TEST_F(OutputFolders, OneCommandStartsContinuesAndEnds) {
  const std::vector<std::string> resume{"--set", "run.resume=auto"};
  run("output", resume);
  const std::vector<std::string> before = log("output");
  run("output", resume);
  EXPECT_EQ(log("output"), before) << "a finished run has nothing left to do";
}

TEST_F(OutputFolders, NeedSensibleSettings) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& message) {
    const CommandResult result = run_command(train("none", more));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.messages, HasSubstr(message));
  };
  refused({"--resume", "auto", "--overwrite"}, "--resume excludes --overwrite");
  refused({"--stop-after", "soon"}, "run.stop_after: found \"soon\"; accepted: a duration such as \"3h50m\"");
  refused({"--stop-before-job-end", "5"}, "run.stop_before_job_end: found \"5\"; accepted: a duration");
  refused({"--accept-changed", "seed,data,weather"},
          "run.accept_changed: found \"weather\"; accepted: seed, batch, model, data");
  refused({"--resume", path("nowhere")}, "'" + path("nowhere") + "': there is no such checkpoint");
}

}  // namespace
}  // namespace strata::host

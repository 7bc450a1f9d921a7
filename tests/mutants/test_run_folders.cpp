#include <gtest/gtest.h>

#include "checkpoint/checkpoint_store.hpp"
#include "log/run_log.hpp"
#include "odd_files.hpp"
#include "refusal.hpp"
#include "train/run_folder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using strata::testing::is_refused;
using strata::testing::Mutator;
using strata::testing::odd_files;

/// An output folder with two damaged checkpoints, which is all that the decision about a start looks at.
class RunFolderMutants : public ::testing::Test {
 protected:
  RunFolderMutants() {
    for (const char* step : {"step-00000001", "step-00000002"}) {
      fs::create_directories(checkpoints_ / step);
      std::ofstream(checkpoints_ / step / kManifestName) << "{}";
    }
  }

  /// Decides how a run starts that resumes from `resume`. Its candidates are the two checkpoints, or there are none.
  void decide(const std::string& resume) const {
    RunConfiguration configuration;
    configuration.run.output = folder_.path() / "run";
    configuration.run.resume = resume;
    const StartDecision decision = decide_start(configuration, false);
    EXPECT_EQ(decision.identity.size(), 32U);
    EXPECT_EQ(decision.identity.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_EQ(decision.candidates.size(), 2U);
  }
  void put(const fs::path& file, const std::string& bytes) const {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  }

  test::TemporaryFolder folder_;
  fs::path output_ = folder_.path() / "run";
  fs::path checkpoints_ = output_ / "checkpoints";
  const std::string identity_ = "0123456789abcdef0123456789abcdef";
};

TEST_F(RunFolderMutants, IdentitiesAreReadOrTheFolderIsRefused) {
  Mutator mutator(4);
  for (int i = 0; i < 250; ++i) {
    put(output_ / kIdentityName, mutator.bytes(identity_ + "\n"));
    (void)is_refused("run-id", [&] { decide("auto"); });
    ASSERT_FALSE(HasFailure()) << "mutant " << i;
  }
}

TEST_F(RunFolderMutants, NamesOfTheLatestCheckpointAreReadOrIgnored) {
  put(output_ / kIdentityName, identity_ + "\n");
  Mutator mutator(5);
  for (int i = 0; i < 250; ++i) {
    put(checkpoints_ / kLatestName, mutator.bytes("step-00000001\n"));
    EXPECT_FALSE(is_refused("", [&] { decide("auto"); }));
    ASSERT_FALSE(HasFailure()) << "mutant " << i;
  }
}

TEST_F(RunFolderMutants, OddFilesAreRefusedOrIgnored) {
  for (const std::string& odd : odd_files(folder_)) {
    for (const fs::path& file : {output_ / kIdentityName, checkpoints_ / kLatestName}) {
      fs::remove_all(file);
      fs::create_symlink(odd, file);
      (void)is_refused(output_.string(), [&] { decide("auto"); });
    }
    EXPECT_TRUE(is_refused(folder_.path().string(), [&] { decide(odd); })) << odd;
  }
}

TEST_F(RunFolderMutants, LogsAreCutBack) {
  const std::string log = R"({"step":1,"loss":1.5}
{"step":2,"loss":1.25}
{"event":"eval","step":2,"loss":1.0}
{"event":"checkpoint","step":2,"path":"x"}
{"step":3,"loss":1.0}
{"event":"summary","step":3}
)";
  const fs::path file = folder_.path() / "log.jsonl";
  Mutator mutator(6);
  for (int i = 0; i < 300; ++i) {
    std::string mutant = mutator.bytes(log);
    // Values of other types, and very deep ones.
    if (i % 3 == 0) mutant += R"({"step":)" + mutator.value() + R"(,"event":)" + mutator.value() + "}\n";
    if (i % 3 == 1) mutant += R"({"event":)" + mutator.value() + R"(,"step":2})" + "\n";
    put(file, mutant);
    const bool refused = is_refused(file.string(), [&] { TrainingLog(file).cut_back(2, true, 0); });
    EXPECT_FALSE(refused);
    const std::string left = test::read_file(file);
    EXPECT_TRUE(left.empty() || left.back() == '\n');
    EXPECT_LE(left.size(), mutant.size());
    ASSERT_FALSE(HasFailure()) << "mutant " << i << ": " << mutant.substr(0, 2000);
  }
}

}  // namespace
}  // namespace strata::host

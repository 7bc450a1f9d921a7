#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "checkpoint_fixture.hpp"
#include "random_storage.hpp"
#include "sanitized.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"
#include "test_disks.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::FakeRanks;
using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kKeepAll = 0;

class CheckpointTest : public ::testing::Test {
 protected:
  fs::path written(FakeRanks& ranks, std::uint64_t step = 7) {
    ranks.fill();
    store_.prepare(0);
    ranks.write(store_, {step, 1337, 70, "[run]\n", {}});
    return store_.path_of(step);
  }
  static FakeRanks one_rank() {
    return {Mesh(), {{"weight", {{"x", 64, {}, false}, {"y", 32, {}, false}}}, {"bias", {{"x", 64, {}, false}}}}};
  }
  static std::string refusal(const fs::path& checkpoint) {
    return message_of<RuntimeError>([&] { CheckpointReader(checkpoint).verify(); });
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(store_.directory())) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }

  test::TemporaryFolder folder_;
  CheckpointStore store_{folder_.path() / "checkpoints", kKeepAll};
};

TEST_F(CheckpointTest, AnyLayoutReadsWhatAnyLayoutWrote) {
  std::mt19937 random(1);
  for (int round = 0; round < (testing::kSanitized ? 10 : 60); ++round) {
    const test::RandomStorage a = test::random_storage(random);
    const test::RandomStorage b = test::random_storage(random);
    FakeRanks writers(a.mesh, a.tensors);
    const fs::path checkpoint = written(writers, static_cast<std::uint64_t>(round));
    FakeRanks readers(b.mesh, b.tensors);
    ASSERT_GT(readers.count_wrong(), 0);
    readers.restore(CheckpointReader(checkpoint));
    ASSERT_EQ(readers.count_wrong(), 0) << "round " << round;
  }
}

TEST_F(CheckpointTest, RunStateComesBack) {
  FakeRanks ranks = one_rank();
  ranks.fill();
  store_.prepare(0);
  const RunState run{12, 99, 768, "[run]\nseed = 99\n", Vocabulary{Vocabulary::Kind::characters, {U'a', U'ß'}}};
  ranks.write(store_, run);
  EXPECT_EQ(CheckpointReader(store_.path_of(12)).run(), run);
}

TEST_F(CheckpointTest, OtherModelIsRefusedByTensor) {
  FakeRanks ranks = one_rank();
  const CheckpointReader reader(written(ranks));
  FakeRanks wider(Mesh(), {{"weight", {{"x", 64, {}, false}, {"y", 48, {}, false}}}});
  EXPECT_THAT(message_of<RuntimeError>([&] { wider.restore(reader); }),
              HasSubstr("'weight' has shape [64 32]; this run's model has [64 48]"));
  FakeRanks other(Mesh(), {{"gain", {{"x", 64, {}, false}}}});
  EXPECT_THAT(message_of<RuntimeError>([&] { other.restore(reader); }), HasSubstr("'gain' is missing"));
}

TEST_F(CheckpointTest, TruncatedFileIsRefusedByName) {
  FakeRanks ranks = one_rank();
  const fs::path checkpoint = written(ranks);
  const fs::path file = checkpoint / "rank-00000.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_THAT(refusal(checkpoint), HasSubstr("'" + file.string() + "' is truncated"));
}

TEST_F(CheckpointTest, AlteredFileIsRefusedByName) {
  FakeRanks ranks = one_rank();
  const fs::path checkpoint = written(ranks);
  const fs::path file = checkpoint / "rank-00000.safetensors";
  const std::string bytes = test::read_file(file);
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::string altered = bytes;
    altered[random() % altered.size()] ^= static_cast<char>(1U << random() % 8);
    std::ofstream(file, std::ios::binary) << altered;
    ASSERT_THAT(refusal(checkpoint), HasSubstr("'" + file.string() + "' was altered"));
  }
}

TEST_F(CheckpointTest, MissingOrAlteredPartsAreRefusedByName) {
  FakeRanks ranks = one_rank();
  const fs::path checkpoint = written(ranks);
  const fs::path manifest = checkpoint / kManifestName;
  std::string text = test::read_file(manifest);
  text.replace(text.find("\"step\": 7"), 9, "\"step\": 8");
  std::ofstream(manifest, std::ios::binary) << text;
  EXPECT_THAT(refusal(checkpoint), HasSubstr("'" + manifest.string() + "' was altered"));

  const fs::path second = written(ranks, 8);
  fs::remove(second / "rank-00000.safetensors");
  EXPECT_THAT(refusal(second), HasSubstr((second / "rank-00000.safetensors").string()));
  fs::remove(second / kManifestName);
  EXPECT_THAT(message_of<ConfigurationError>([&] { (void)find_checkpoint(second); }), HasSubstr(second.string()));
}

TEST_F(CheckpointTest, OldOnesGoAndLeftoversAreIgnored) {
  const CheckpointStore store(store_.directory(), 2);
  store.prepare(0);
  FakeRanks ranks = one_rank();
  ranks.fill();
  // An earlier run trained longer. This run must not remove the earlier run's checkpoints.
  ranks.write(store, {900, 1, 0, "", {}});
  for (const std::uint64_t step : {10, 20, 30}) ranks.write(store, {step, 1, 0, "", {}});
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000020", "step-00000030", "step-00000900"));
  EXPECT_EQ(find_checkpoint(folder_.path()), store.path_of(30));

  fs::create_directories(store.directory() / "step-00000040.tmp-123");
  (void)folder_.file("checkpoints/latest.tmp-9", "step-");
  EXPECT_EQ(find_checkpoint(folder_.path()), store.path_of(30));
  store.prepare(0);
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000020", "step-00000030", "step-00000900"));
}

TEST_F(CheckpointTest, ACheckpointOfTheSameStepIsReplaced) {
  FakeRanks ranks = one_rank();
  (void)written(ranks);
  ranks.write(store_, {7, 1, 0, "second", {}});
  EXPECT_EQ(CheckpointReader(store_.path_of(7)).run().configuration, "second");
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000007"));
}

TEST_F(CheckpointTest, FindsTheLastOneFromAnyFolderOfTheRun) {
  FakeRanks ranks = one_rank();
  (void)written(ranks, 5);
  const fs::path last = written(ranks, 15);
  EXPECT_EQ(find_checkpoint(last), last);
  EXPECT_EQ(find_checkpoint(store_.directory()), last);
  EXPECT_EQ(find_checkpoint(folder_.path()), last);
  // The file `latest` was lost, or names a folder that the user removed.
  fs::remove(store_.directory() / kLatestName);
  EXPECT_EQ(find_checkpoint(folder_.path()), last);
  (void)folder_.file("checkpoints/latest", "step-00000099\n");
  EXPECT_EQ(find_checkpoint(folder_.path()), last);
  EXPECT_THAT(message_of<ConfigurationError>([&] { (void)find_checkpoint(folder_.path() / "nothing"); }),
              HasSubstr("nothing"));
}

TEST_F(CheckpointTest, UnwritableFolderIsNamedBeforeTraining) {
  const fs::path blocked = folder_.file("blocked", "a file");
  EXPECT_THAT(message_of<RuntimeError>([&] { CheckpointStore(blocked / "checkpoints", 1).prepare(0); }),
              HasSubstr((blocked / "checkpoints").string()));
  EXPECT_THAT(message_of<RuntimeError>([&] { store_.prepare(std::uint64_t{1} << 60U); }), HasSubstr("are free"));
}

struct SpaceCase {
  const char* what;
  int keep;
  CheckpointsToCome coming;
  /// Checkpoints that there must be space for.
  std::uint64_t needed;
};

TEST_F(CheckpointTest, SpaceIsNeededForOneMoreThanAreKept) {
  constexpr std::uint64_t kBytes = 10 << 20;
  constexpr std::uint64_t kSpare = 1 << 20;
  FakeRanks ranks = one_rank();
  (void)written(ranks, 5);
  (void)written(ranks, 9);
  const std::vector<SpaceCase> cases{
      {"a new run", 3, {.count = 100, .first_step = 0}, 4},
      {"a run that writes few", 3, {.count = 2, .first_step = 0}, 2},
      {"a resumed run, one of whose checkpoints exists", 3, {.count = 100, .first_step = 5}, 3},
      {"a resumed run with more than it keeps", 1, {.count = 100, .first_step = 9}, 1},
      {"a run that keeps all", 0, {.count = 100, .first_step = 0}, 100},
  };
  for (const SpaceCase& each : cases) {
    SCOPED_TRACE(each.what);
    const std::uint64_t needed = each.needed * (kBytes + kSpare);
    const auto refusal = [&](std::uint64_t free) {
      const test::DiskWithSpace disk(free);
      return message_of<RuntimeError>(
          [&] { CheckpointStore(store_.directory(), each.keep, disk).prepare(kBytes, each.coming); });
    };
    EXPECT_EQ(refusal(needed), "");
    EXPECT_THAT(refusal(needed - 1),
                HasSubstr(std::to_string(needed) + " bytes, but " + std::to_string(needed - 1) + " are free"));
    // Preparing removes checkpoints of this run that it does not keep, but not those of the tests above.
    EXPECT_THAT(names(), ElementsAre("latest", "step-00000005", "step-00000009"));
  }
}

TEST_F(CheckpointTest, ACheckpointIsNotBegunWithoutSpace) {
  FakeRanks ranks = one_rank();
  const fs::path good = written(ranks, 7);
  const test::DiskWithSpace disk(1 << 20);
  const CheckpointStore store(store_.directory(), 1, disk);
  EXPECT_THAT(message_of<RuntimeError>([&] { ranks.write(store, {8, 1, 0, "", {}}); }), HasSubstr("are free"));
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000007"));
}

/// A rank may have written its part before the first rank looks for space.
TEST_F(CheckpointTest, WhatOtherRanksHaveWrittenNeedsNoSpace) {
  constexpr std::uint64_t kBytes = 10 << 20;
  constexpr std::uint64_t kSpare = 1 << 20;
  const fs::path temporary = folder_.path() / "part";
  fs::create_directories(temporary / "inner");
  std::ofstream(temporary / "inner" / "rank-00001.safetensors") << std::string(3 << 20, 'x');
  const auto refusal = [&](std::uint64_t free) {
    const test::DiskWithSpace disk(free);
    return message_of<RuntimeError>([&] { CheckpointStore(folder_.path(), 1, disk).require_space(kBytes, temporary); });
  };
  EXPECT_EQ(refusal(kBytes + kSpare - (3 << 20)), "");
  EXPECT_THAT(refusal(kBytes + kSpare - (3 << 20) - 1), HasSubstr("are free"));
}

TEST_F(CheckpointTest, AFailedWriteLeavesTheLastGoodOne) {
  FakeRanks ranks = one_rank();
  const fs::path good = written(ranks, 7);
  const CheckpointPlan plan(ranks.programs());
  {
    CheckpointWriter writer(store_, plan, {8, 0, 0, "", {}}, "test");
    writer.begin();
    EXPECT_THROW(writer.write_rank(0, [](const BufferSlice&, void*) { throw RuntimeError("device lost"); }),
                 RuntimeError);
  }
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000007"));
  EXPECT_EQ(find_checkpoint(folder_.path()), good);
  EXPECT_THAT(refusal(good), IsEmpty());
}

TEST(Files, NewOnesReplaceALinkOfTheirName) {
  const test::TemporaryFolder folder;
  const fs::path victim = folder.file("victim", "untouched");
  fs::create_symlink(victim, folder.path() / "soft");
  fs::create_hard_link(victim, folder.path() / "hard");
  for (const char* name : {"soft", "hard"}) {
    OutputFile file(folder.path() / name);
    file.write("new", 3);
    file.finish();
    EXPECT_FALSE(fs::is_symlink(fs::symlink_status(folder.path() / name)));
    EXPECT_EQ(test::read_file(folder.path() / name), "new");
  }
  EXPECT_EQ(test::read_file(victim), "untouched");
}

TEST_F(CheckpointTest, AFullDiskIsAnErrorThatNamesTheFile) {
  if (!fs::exists("/dev/full")) return;
  OutputFile file("/dev/full");
  const std::string bytes(1 << 16, 'x');
  EXPECT_THAT(message_of<RuntimeError>([&] { file.write(bytes.data(), bytes.size()); }),
              HasSubstr("'/dev/full': cannot be written: No space left"));
}

TEST(FileLock, SecondHolderIsRefused) {
  const test::TemporaryFolder folder;
  const auto first = std::make_unique<FileLock>(folder.path() / "lock", "taken");
  EXPECT_EQ(message_of<RuntimeError>([&] { FileLock second(folder.path() / "lock", "taken"); }), "taken");
  EXPECT_TRUE(first->holds());
}

TEST(FileLock, AFileSystemWithoutLocksIsToldFromAFailure) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(FileLock(folder.path() / "lock", "taken", test::DiskWithoutLocks(ENOLCK)).holds());
  EXPECT_THAT(
      message_of<RuntimeError>([&] { FileLock lock(folder.path() / "lock", "taken", test::DiskWithoutLocks(EIO)); }),
      HasSubstr("cannot be locked: Input/output error"));
}

}  // namespace
}  // namespace strata::host

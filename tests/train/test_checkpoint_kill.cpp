#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "checkpoint/checkpoint_store.hpp"
#include "checkpoint_fixture.hpp"
#include "temporary_folder.hpp"
#include "test_disks.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

const test::StoredTensor kTensor{"weight", {{"x", 1 << 12, {}, false}, {"y", 64, {}, false}}};

/// Writes checkpoints until killed.
[[noreturn]] void write_forever(const fs::path& directory, std::uint64_t first_step) {
  test::FakeRanks ranks(Mesh(), {kTensor});
  ranks.fill();
  const CheckpointStore store(directory, 2);
  store.prepare(0);
  for (std::uint64_t step = first_step;; ++step) ranks.write(store, {step, 0, 0, "", {}});
}

/// Replaces the only checkpoint until killed.
[[noreturn]] void replace_forever(const fs::path& directory, const Disk& disk) {
  test::FakeRanks ranks(Mesh(), {kTensor});
  ranks.fill();
  const CheckpointStore store(directory, 1, disk);
  store.prepare(0);
  while (true) ranks.write(store, {7, 0, 0, "", {}});
}

/// Waits until there is a checkpoint of more than `step` steps.
void wait_for_checkpoint_after(const fs::path& directory, std::uint64_t step) {
  while (true) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
      if (step_of_checkpoint(entry.path()).value_or(0) > step) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// A process is killed at a random moment of writing, again and again in the same folder. After each kill, the last
// checkpoint is complete and not older than before.
TEST(CheckpointKill, TheLastOneIsAlwaysUsable) {
  const test::TemporaryFolder folder;
  const fs::path directory = folder.path() / "checkpoints";
  std::mt19937 random(7);
  std::uint64_t last_step = 0;
  int found = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_forever(directory, last_step + 1);
    // Sometimes kill it at once, while it starts and cleans up.
    if (round % 4 != 0) wait_for_checkpoint_after(directory, last_step);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 10000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";

    fs::path checkpoint;
    try {
      checkpoint = find_checkpoint(directory);
    } catch (const ConfigurationError&) {
      ASSERT_EQ(last_step, 0U) << "a checkpoint was lost";
      continue;
    }
    ++found;
    const CheckpointReader reader(checkpoint);
    ASSERT_GE(reader.run().step, last_step);
    last_step = reader.run().step;
    test::FakeRanks ranks(Mesh(), {kTensor});
    ranks.restore(reader);
    ASSERT_EQ(ranks.count_wrong(), 0);
  }
  EXPECT_GE(found, 30);
}

// A run that repeats steps replaces its only checkpoint. On file systems that cannot exchange two names, too, a kill at
// any moment leaves one.
TEST(CheckpointKill, TheOnlyOneIsReplacedWithoutALoss) {
  const test::TemporaryFolder folder;
  const test::DiskWithoutExchange disk;
  const fs::path directory = folder.path() / "checkpoints";
  std::mt19937 random(8);
  for (int round = 0; round < 15; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) replace_forever(directory, disk);
    wait_for_checkpoint_after(directory, 0);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 10000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
    const CheckpointReader reader(find_checkpoint(directory));
    test::FakeRanks ranks(Mesh(), {kTensor});
    ranks.restore(reader);
    ASSERT_EQ(ranks.count_wrong(), 0);
  }
}

}  // namespace
}  // namespace strata::host

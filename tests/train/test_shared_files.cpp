/// Frozen tensors, which the checkpoints of a run share instead of writing them again.

#include <gmock/gmock.h>

#include <cerrno>

#include "checkpoint_fixture.hpp"
#include "temporary_folder.hpp"
#include "test_disks.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::FakeRanks;
using test::message_of;
using test::StoredTensor;
using ::testing::HasSubstr;

/// A disk on a file system where every file has one name.
class DiskWithoutLinks : public Disk {
 public:
  int link(const fs::path& /*existing*/, const fs::path& /*name*/) const override {
    errno = EPERM;
    return -1;
  }
};

std::vector<StoredTensor> base_and_adapters(const std::vector<AxisShard>& axes) {
  StoredTensor base{"base", {{"x", 40, axes, false}, {"y", 6, {}, false}}, DType::bf16, {}, {}, {}};
  base.frozen = true;
  StoredTensor norm{"norm", {{"x", 40, {}, false}}, DType::f32, {}, {}, {}};
  norm.frozen = true;
  return {base, norm, {"lora_A", {{"x", 40, axes, false}, {"rank", 2, {}, false}}}};
}

class SharedFiles : public ::testing::Test {
 protected:
  /// Writes the checkpoint of a step.
  fs::path written(FakeRanks& ranks, std::uint64_t step, const fs::path& base, const Disk& disk = system_disk()) {
    ranks.fill();
    const CheckpointStore store(folder_.path(), 1, disk);
    ranks.write(store, {step, 0, 0, "", {}}, base);
    return store.path_of(step);
  }
  static std::uintmax_t names_of(const fs::path& checkpoint, int rank) {
    return fs::hard_link_count(checkpoint / (file_stem(rank, RankFile::frozen) + ".safetensors"));
  }
  static void expect_whole(const fs::path& checkpoint, FakeRanks ranks) {
    const CheckpointReader reader(checkpoint);
    reader.verify();
    ranks.restore(reader);
    EXPECT_EQ(ranks.count_wrong(), 0);
  }

  test::TemporaryFolder folder_;
  FakeRanks ranks_{Mesh({{"tp", 2}}), base_and_adapters({{"tp"}})};
};

TEST_F(SharedFiles, ACheckpointIsWholeAfterTheOneThatWroteItsFrozenTensorsIsRemoved) {
  const fs::path first = written(ranks_, 1, {});
  const fs::path kept = folder_.path() / "kept";
  fs::create_directory(kept);
  fs::create_hard_link(first / "frozen-00000.safetensors", kept / "frozen");
  const fs::path second = written(ranks_, 2, first);
  EXPECT_FALSE(fs::exists(first)) << "the store keeps one checkpoint";
  EXPECT_TRUE(fs::equivalent(kept / "frozen", second / "frozen-00000.safetensors")) << "the tensors were written again";
  expect_whole(second, ranks_);
  // A run that resumes from it shares the file again.
  EXPECT_TRUE(fs::equivalent(kept / "frozen", written(ranks_, 3, second) / "frozen-00000.safetensors"));
  EXPECT_FALSE(fs::exists(folder_.path() / "step-00000003" / "frozen-00000.record"));
}

TEST_F(SharedFiles, WhatCannotBeSharedIsWritten) {
  const fs::path first = folder_.path() / "first";
  fs::rename(written(ranks_, 1, {}), first);
  const auto expect_alone = [&](const char* what, FakeRanks ranks, const fs::path& base,
                                const Disk& disk = system_disk()) {
    SCOPED_TRACE(what);
    const fs::path origin = folder_.path() / "origin";
    fs::remove_all(origin);
    fs::copy(base, origin);
    const fs::path made = written(ranks, 2, origin, disk);
    EXPECT_EQ(names_of(made, 0), 1U);
    expect_whole(made, std::move(ranks));
    fs::remove_all(made);
  };
  expect_alone("a file system without links", ranks_, first, DiskWithoutLinks());
  expect_alone("another layout", FakeRanks(Mesh({{"tp", 2}}), base_and_adapters({})), first);
  FakeRanks in_f32(Mesh({{"tp", 2}}), [] {
    std::vector<StoredTensor> tensors = base_and_adapters({{"tp"}});
    tensors.front().dtype = DType::f32;
    return tensors;
  }());
  expect_alone("another type", std::move(in_f32), first);
  const fs::path file = first / "frozen-00000.safetensors";
  {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(-1, std::ios::end);
    stream.put('\x55');
  }
  expect_alone("a damaged file", ranks_, first);
  fs::remove(file);
  expect_alone("a missing file", ranks_, first);
}

/// Half of each rank's base, while the sizes of adapters decide who writes them.
TEST_F(SharedFiles, RanksShareTheWritingOfEachFile) {
  const FakeRanks replicas(Mesh({{"dp", 2}}), [] {
    std::vector<StoredTensor> tensors;
    for (const char* name : {"a", "b", "c", "d"}) {
      tensors.push_back({name, {{"x", 40, {}, false}}, DType::f32, {}, {}, {}});
      tensors.push_back({std::string(name) + ".base", {{"x", 900, {}, false}}, DType::f32, {}, {}, {}});
      tensors.back().frozen = true;
    }
    return tensors;
  }());
  const CheckpointPlan plan(replicas.programs());
  EXPECT_THAT(bytes_by_rank(plan, RankFile::frozen), ::testing::ElementsAre(7200, 7200));
  EXPECT_THAT(bytes_by_rank(plan, RankFile::changing), ::testing::ElementsAre(320, 320));
  EXPECT_EQ(frozen_bytes(plan), 14400U);
}

TEST_F(SharedFiles, NeedTheirSpaceOnce) {
  constexpr std::uint64_t kShared = 100 << 20;
  constexpr std::uint64_t kOwn = 10 << 20;
  constexpr std::uint64_t kSpare = 1 << 20;
  const auto refusal = [&](const Disk& disk) {
    return message_of<RuntimeError>([&] {
      CheckpointStore(folder_.path(), 2, disk).prepare(kShared + kOwn, {.count = 9, .shared_bytes = kShared});
    });
  };
  constexpr std::uint64_t kNeeded = 3 * (kOwn + kSpare) + kShared;
  EXPECT_EQ(refusal(test::DiskWithSpace(kNeeded)), "");
  EXPECT_THAT(refusal(test::DiskWithSpace(kNeeded - 1)), HasSubstr("need " + std::to_string(kNeeded) + " bytes"));
  class SmallDiskWithoutLinks : public DiskWithoutLinks {
   public:
    std::uint64_t free_bytes(const fs::path& /*directory*/) const override { return kNeeded; }
  };
  EXPECT_THAT(refusal(SmallDiskWithoutLinks()),
              HasSubstr("need " + std::to_string(3 * (kShared + kOwn + kSpare)) + " bytes"));
}

/// A resumed run needs the space of frozen files only if those of its checkpoint cannot be linked.
TEST_F(SharedFiles, NeedNoSpaceIfTheBaseCanBeLinked) {
  constexpr std::uint64_t kShared = 100 << 20;
  constexpr std::uint64_t kOwn = 10 << 20;
  constexpr std::uint64_t kSpare = 1 << 20;
  const test::DiskWithSpace disk(0);
  const auto refusal = [&](const fs::path& base) {
    return message_of<RuntimeError>([&] {
      CheckpointStore(folder_.path() / "new", 1, disk)
          .prepare(kShared + kOwn, {.count = 1, .shared_bytes = kShared, .base = base});
    });
  };
  fs::create_directory(folder_.path() / "base");
  (void)folder_.file("base/" + std::string(kManifestName), "{}");
  EXPECT_THAT(refusal(folder_.path() / "base"), HasSubstr("needs " + std::to_string(kOwn + kSpare) + " bytes"));
  EXPECT_THAT(refusal(folder_.path() / "lost"),
              HasSubstr("needs " + std::to_string(kShared + kOwn + kSpare) + " bytes"));
}

/// Of a checkpoint that is being written, only what is its own counts as written.
TEST_F(SharedFiles, TakeNoSpaceInANewCheckpoint) {
  const fs::path part = folder_.path() / "part";
  fs::create_directory(part);
  (void)folder_.file("old", std::string(3 << 20, 'x'));
  fs::create_hard_link(folder_.path() / "old", part / "frozen-00000.safetensors");
  const test::DiskWithSpace disk((2 << 20) - 1);
  EXPECT_THAT(message_of<RuntimeError>([&] { CheckpointStore(folder_.path(), 1, disk).require_space(1 << 20, part); }),
              HasSubstr("are free"));
}

}  // namespace
}  // namespace strata::host

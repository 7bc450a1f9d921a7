/// What a resumed run reads of a checkpoint, and what it refuses.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_store.hpp"
#include "checkpoint_fixture.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::FakeRanks;
using test::message_of;
using test::StoredTensor;
using ::testing::HasSubstr;

class CheckpointReadingTest : public ::testing::Test {
 protected:
  /// A checkpoint of two ranks that share tensors, as under ZeRO.
  FakeRanks sharded() const {
    return {Mesh({{"dp", 2}}), {tensor_, {"b", {{"x", 6, {{"dp", Distribution::block}}, false}}}}};
  }
  fs::path written(FakeRanks& ranks) {
    ranks.fill();
    store_.prepare(0);
    ranks.write(store_, {7, 1, 0, "", {}});
    return store_.path_of(7);
  }
  /// The refusal to restore one rank.
  static std::string refusal(const CheckpointReader& reader, const FakeRanks& ranks, int rank) {
    return message_of<RuntimeError>([&] {
      reader.restore(*ranks.programs().programs.at(static_cast<std::size_t>(rank)), rank,
                     [](const BufferSlice&, const void*) {});
    });
  }
  static void alter(const fs::path& file, std::size_t from_end) {
    std::string bytes = test::read_file(file);
    bytes[bytes.size() - from_end] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  }
  /// Changes a manifest, and signs it again.
  static void edit_manifest(const fs::path& checkpoint, const std::function<void(json&)>& edit) {
    json manifest = json::parse(test::read_file(checkpoint / kManifestName));
    manifest.erase("xxh3_128");
    edit(manifest);
    const std::string text = manifest.dump();
    manifest["xxh3_128"] = checksum_of(std::as_bytes(std::span(text)));
    std::ofstream(checkpoint / kManifestName) << manifest;
  }

  const StoredTensor tensor_{"w", {{"x", 8, {{"dp", Distribution::block}}, false}, {"y", 4, {}, false}}};
  test::TemporaryFolder folder_;
  CheckpointStore store_{folder_.path() / "checkpoints", 0};
};

TEST_F(CheckpointReadingTest, ARankReadsOnlyThePiecesThatItNeeds) {
  FakeRanks ranks = sharded();
  const fs::path checkpoint = written(ranks);
  alter(checkpoint / "rank-00001.safetensors", 1);
  const CheckpointReader reader(checkpoint);
  EXPECT_EQ(refusal(reader, ranks, 0), "") << "the altered file has nothing of this rank";
  EXPECT_THAT(refusal(reader, ranks, 1), HasSubstr("rank-00001.safetensors' was altered"));
  EXPECT_THAT(message_of<RuntimeError>([&] { reader.verify(); }), HasSubstr("rank-00001.safetensors' was altered"));
  // Within a file, too, only some tensors are needed.
  const FakeRanks other(Mesh(), {{"b", {{"x", 6, {}, false}}, DType::f32, "", {}, {}}});
  const CheckpointReader whole(written(ranks));
  alter(store_.path_of(7) / "rank-00001.safetensors", 1);
  EXPECT_EQ(refusal(whole, other, 0), "");
}

TEST_F(CheckpointReadingTest, PipesAreRefusedWithoutWaiting) {
  FakeRanks ranks = sharded();
  const fs::path checkpoint = written(ranks);
  const auto replace_by_pipe = [](const fs::path& path) {
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  };
  replace_by_pipe(store_.directory() / kLatestName);
  EXPECT_EQ(find_checkpoint(folder_.path()), checkpoint);
  const fs::path file = checkpoint / "rank-00001.safetensors";
  replace_by_pipe(file);
  const std::string expected = "'" + file.string() + "': is not a regular file";
  EXPECT_EQ(message_of<RuntimeError>([&] { CheckpointReader reader(checkpoint); }), expected);
  EXPECT_EQ(message_of<RuntimeError>([&] { const SafetensorsFile opened(file); }), expected);
  replace_by_pipe(checkpoint / kManifestName);
  EXPECT_THAT(message_of<RuntimeError>([&] { CheckpointReader reader(checkpoint); }),
              HasSubstr("is not a regular file"));
}

TEST_F(CheckpointReadingTest, DeepNestingIsRefusedBeforeItOverflowsTheStack) {
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  const std::string too_deep = "nested deeper than 32 levels";
  EXPECT_THAT(message_of<RuntimeError>([&] { (void)manifest_from_json("{\"format\": " + deep + "}"); }),
              HasSubstr(too_deep));
  const std::string header = "{\"w\": " + deep + "}";
  std::string length(8, '\0');
  const std::uint64_t bytes = header.size();
  std::memcpy(length.data(), &bytes, sizeof bytes);
  const fs::path file = folder_.file("deep.safetensors", length + header);
  EXPECT_THAT(message_of<RuntimeError>([&] { const SafetensorsFile opened(file); }), HasSubstr(too_deep));
  // Brackets in texts do not count.
  FakeRanks ranks = sharded();
  ranks.fill();
  store_.prepare(0);
  ranks.write(store_, {8, 1, 0, std::string(100, '[') + "\\\"" + std::string(100, '{'), {}});
  EXPECT_EQ(CheckpointReader(store_.path_of(8)).run().step, 8U);
}

}  // namespace
}  // namespace strata::host

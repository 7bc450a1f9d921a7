/// Altered manifests and safetensors files, drawn from a seed: each is read, or refused with one message. With
/// sanitizers this test also finds reads out of bounds and overflows.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_store.hpp"
#include "checkpoint_fixture.hpp"
#include "mutator.hpp"
#include "sanitized.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::FakeRanks;

constexpr int kMutants = testing::kSanitized ? 1000 : 3000;

class JsonMutator : public testing::Mutator {
 public:
  using Mutator::Mutator;

  /// Replaces or removes a value somewhere in `value`.
  void edit(json& value) {
    if (value.is_structured() && !value.empty() && below(8) != 0) {
      auto at = value.begin();
      std::advance(at, static_cast<std::ptrdiff_t>(below(value.size())));
      if (below(12) != 0) return edit(*at);
      value.erase(at);
      return;
    }
    const std::vector<json> others{nullptr,
                                   true,
                                   -1,
                                   0,
                                   1,
                                   2,
                                   9223372036854775807,
                                   -9223372036854775807 - 1,
                                   18446744073709551615U,
                                   1e300,
                                   0.5,
                                   "",
                                   "text",
                                   "F64",
                                   "rank-00000.safetensors",
                                   json::array(),
                                   json::object(),
                                   {4611686018427387904, 4611686018427387904},
                                   {{0, 9223372036854775807}, {0, 9223372036854775807}}};
    value = others[below(others.size())];
  }
};

std::string sign(json manifest) {
  manifest.erase("xxh3_128");
  const std::string text = manifest.dump();
  manifest["xxh3_128"] = checksum_of(std::as_bytes(std::span(text)));
  return manifest.dump();
}

class CheckpointMutants : public ::testing::Test {
 protected:
  CheckpointMutants() {
    ranks_.fill();
    store_.prepare(0);
    ranks_.write(store_, {7, 1, 70, "[run]\n", Vocabulary{Vocabulary::Kind::characters, {U'a', U'ß'}},
                          LossScalerState{2, 1, 0}, DataState{"00ff", "text", {{"seq", 8}}}});
  }
  /// Reads the checkpoint and restores all ranks. \return false if it is refused.
  bool is_accepted() {
    try {
      const CheckpointReader reader(checkpoint_);
      ranks_.restore(reader);
      return true;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_FALSE(message.empty());
      return false;
    }
  }

  const Mesh mesh_{{{"dp", 2}, {"tp", 2}}};
  FakeRanks ranks_{mesh_,
                   {{"w", {{"x", 8, {{"tp", Distribution::zigzag}}, false}, {"y", 3, {}, false}}},
                    {"flat", {{"x", 7, {}, false}}, DType::bf16, "bucket", FlatSharding{{"dp"}, 12, 2, true}}}};
  test::TemporaryFolder folder_;
  CheckpointStore store_{folder_.path() / "checkpoints", 0};
  fs::path checkpoint_ = store_.path_of(7);
};

TEST_F(CheckpointMutants, ManifestsAreReadOrRefused) {
  const std::string original = test::read_file(checkpoint_ / kManifestName);
  ASSERT_TRUE(is_accepted());
  JsonMutator mutator(1);
  int accepted = 0;
  for (int i = 0; i < kMutants; ++i) {
    std::string mutant;
    if (i % 4 == 0) {
      mutant = mutator.bytes(original);
    } else {
      json manifest = json::parse(original);
      for (std::size_t edits = 1 + mutator.below(2); edits > 0; --edits) mutator.edit(manifest);
      mutant = manifest.is_object() ? sign(manifest) : manifest.dump();
    }
    std::ofstream(checkpoint_ / kManifestName, std::ios::binary) << mutant;
    SCOPED_TRACE(mutant);
    accepted += is_accepted() ? 1 : 0;
    if (HasFailure()) return;
  }
  // Some edits change nothing that matters, such as the number of samples.
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, kMutants / 2);
}

TEST_F(CheckpointMutants, SafetensorsFilesAreReadOrRefused) {
  const std::string original = test::read_file(checkpoint_ / "rank-00000.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, original.data(), sizeof length);
  JsonMutator mutator(2);
  int accepted = 0;
  for (int i = 0; i < kMutants; ++i) {
    std::string mutant;
    if (i % 2 == 0) {
      mutant = mutator.bytes(original);
    } else {
      json header = json::parse(original.substr(sizeof length, length));
      mutator.edit(header);
      const std::string text = header.dump();
      const std::uint64_t bytes = text.size();
      mutant.assign(reinterpret_cast<const char*>(&bytes), sizeof bytes);
      mutant += text + original.substr(sizeof length + length);
    }
    const fs::path path = folder_.file("mutant.safetensors", mutant);
    try {
      const SafetensorsFile file(path);
      for (const auto& [name, entry] : file.tensors()) (void)checksum_of(entry.data);
      ++accepted;
    } catch (const RuntimeError& error) {
      ASSERT_THAT(error.what(), ::testing::HasSubstr(path.string()));
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, kMutants);
}

}  // namespace
}  // namespace strata::host

#include <gmock/gmock.h>

#include "strata/error.hpp"
#include "temporary_folder.hpp"
#include "train/checkpoint_manifest.hpp"

namespace strata::host {
namespace {

using ::testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  manifest.run = {
      100, 0xFFFFFFFFFFFFFFFFU, 6400, "[run]\nname = \"a\\\"b\"\n", {Vocabulary::Kind::characters, {U'a', U'€'}}};
  manifest.files["rank-00000.safetensors"] = {123, "0123456789abcdef0123456789abcdef"};
  manifest.tensors["wte"] = {DType::f32,
                             {8, 2},
                             {{"rank-00000.safetensors", "wte", {{8, {{0, 0, 2}, {2, 6, 2}}}, {2, {{0, 0, 2}}}}},
                              {"rank-00000.safetensors", "other", {{8, {{0, 2, 4}}}, {2, {{0, 0, 2}}}}}}};
  manifest.tensors["scalar"] = {DType::f64, {}, {{"rank-00000.safetensors", "scalar", {}}}};
  return manifest;
}

TEST(CheckpointManifest, RoundTrips) { EXPECT_EQ(manifest_from_json(to_json(example())), example()); }

TEST(CheckpointManifest, EveryChangedCharacterIsNoticed) {
  const std::string text = to_json(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == '1' ? '2' : '1';
    // White space between tokens means nothing.
    try {
      EXPECT_EQ(manifest_from_json(changed), example()) << changed;
    } catch (const RuntimeError&) {
    }
  }
}

TEST(CheckpointManifest, EveryTruncationIsNoticed) {
  const std::string text = to_json(example());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_THROW((void)manifest_from_json(text.substr(0, length)), RuntimeError) << length;
  }
}

TEST(CheckpointManifest, UnfitPiecesAreRefused) {
  Manifest gap = example();
  gap.tensors["wte"].pieces.pop_back();
  EXPECT_THAT(test::message_of<RuntimeError>([&] { (void)manifest_from_json(to_json(gap)); }), HasSubstr("'wte'"));
  Manifest outside = example();
  outside.tensors["wte"].pieces[0].dims[0].segments[1].global_begin = 7;
  EXPECT_THROW((void)manifest_from_json(to_json(outside)), RuntimeError);
  Manifest elsewhere = example();
  elsewhere.files["../secret"] = {1, ""};
  EXPECT_THAT(test::message_of<RuntimeError>([&] { (void)manifest_from_json(to_json(elsewhere)); }),
              HasSubstr("../secret"));
}

TEST(CheckpointManifest, OtherVersionIsNamed) {
  std::string text = to_json(example());
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 9");
  EXPECT_THAT(test::message_of<RuntimeError>([&] { (void)manifest_from_json(text); }),
              HasSubstr("version 9; version 1"));
}

}  // namespace
}  // namespace strata::host

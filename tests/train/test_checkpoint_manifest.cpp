#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "checkpoint/checkpoint_manifest.hpp"
#include "files/file_io.hpp"
#include "sanitized.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

using ::testing::HasSubstr;

/// Between the characters that a test changes.
constexpr std::size_t kStride = testing::kSanitized ? 9 : 1;

Manifest example() {
  Manifest manifest;
  manifest.run = {100, 0xFFFFFFFFFFFFFFFFU, 6400, "[run]\nname = \"a\\\"b\"\n",
                  Vocabulary{Vocabulary::Kind::characters, {U'a', U'€'}}};
  manifest.run.data = DataState{"00ff", "3 tokens of 'text'", {{"seq", 8}, {"vocab", 2}}};
  manifest.files["rank-00000.safetensors"] = {123, "0123456789abcdef0123456789abcdef"};
  const std::vector<IndexMap> ends{{8, {{0, 0, 2}, {2, 6, 2}}}, {2, {{0, 0, 2}}}};
  const std::vector<IndexMap> middle{{8, {{0, 2, 4}}}, {2, {{0, 0, 2}}}};
  manifest.tensors["wte"] = {
      DType::f32,
      {8, 2},
      {{"rank-00000.safetensors", "wte", TensorPart::block(ends), "fedcba9876543210fedcba9876543210"},
       {"rank-00000.safetensors", "other", {middle, 3, 8}},
       {"rank-00000.safetensors", "rest", {middle, 0, 3}}}};
  manifest.tensors["scalar"] = {DType::f64, {}, {{"rank-00000.safetensors", "scalar", TensorPart::block({})}}};
  return manifest;
}

TEST(CheckpointManifest, RoundTrips) {
  Manifest manifest = example();
  EXPECT_EQ(manifest_from_json(to_json(manifest)), manifest);
  manifest.run.identity = "0123456789abcdef0123456789abcdef";
  manifest.run.evaluation_due = true;
  manifest.run.imported_types = {{"wte", DType::bf16}};
  EXPECT_EQ(manifest_from_json(to_json(manifest)), manifest);
}

TEST(CheckpointManifest, DataThatIsNoTextHasNoVocabulary) {
  Manifest manifest = example();
  manifest.run.vocabulary = std::nullopt;
  EXPECT_EQ(manifest_from_json(to_json(manifest)), manifest);
}

TEST(CheckpointManifest, EveryChangedCharacterIsNoticed) {
  const std::string text = to_json(example());
  for (std::size_t i = 0; i < text.size(); i += kStride) {
    std::string changed = text;
    changed[i] = changed[i] == '1' ? '2' : '1';
    // White space between tokens may be removed.
    try {
      EXPECT_EQ(manifest_from_json(changed), example()) << changed;
    } catch (const RuntimeError&) {
    }
  }
}

TEST(CheckpointManifest, EveryTruncationIsNoticed) {
  const std::string text = to_json(example());
  for (std::size_t length = 0; length + 2 < text.size(); length += kStride) {
    EXPECT_THROW((void)manifest_from_json(text.substr(0, length)), RuntimeError) << length;
  }
}

/// The text of a manifest with the checksum of its content.
std::string with_checksum(nlohmann::json manifest) {
  manifest.erase("xxh3_128");
  const std::string content = manifest.dump();
  manifest["xxh3_128"] = checksum_of(std::as_bytes(std::span(content)));
  return manifest.dump();
}

/// The path of a value in a JSON document, such as "/tensors/wte/shape/0", as errors give it.
std::string place_of(const std::string& pointer) {
  std::string place;
  std::istringstream parts(pointer.substr(1));
  for (std::string part; std::getline(parts, part, '/');) {
    const bool is_index = part.find_first_not_of("0123456789") == std::string::npos;
    place += is_index ? "[" + part + "]" : (place.empty() ? "" : ".") + part;
  }
  return place;
}

TEST(CheckpointManifest, AValueOfAnotherTypeIsNamed) {
  Manifest manifest = example();
  manifest.run.identity = "0123456789abcdef0123456789abcdef";
  manifest.run.evaluation_due = true;
  manifest.run.loss_scaler = {.scale = 2, .good_steps = 1, .skipped_steps = 1};
  manifest.run.health = HealthState{.losses = {1}, .norms = {1}, .left_out = {{1, 2}}, .rewound_to = 1};
  const nlohmann::json whole = nlohmann::json::parse(to_json(manifest));
  const nlohmann::json leaves = whole.flatten();
  for (const auto& [pointer, value] : leaves.items()) {
    if (pointer == "/format" || pointer == "/version" || pointer == "/xxh3_128") continue;
    nlohmann::json changed = whole;
    changed[nlohmann::json::json_pointer(pointer)] = {{"another", "type"}};
    const std::string message =
        test::message_of<RuntimeError>([&] { (void)manifest_from_json(with_checksum(changed)); });
    EXPECT_THAT(message, HasSubstr(place_of(pointer) + ": found an object; accepted: ")) << pointer;
  }
  for (const char* missing : {"step", "files", "tensors", "configuration"}) {
    nlohmann::json changed = whole;
    changed.erase(missing);
    EXPECT_THAT(test::message_of<RuntimeError>([&] { (void)manifest_from_json(with_checksum(changed)); }),
                HasSubstr("has no key '" + std::string(missing) + "', which is required"));
  }
}

TEST(CheckpointManifest, UnfitPiecesAreRefused) {
  const auto refusal = [](const Manifest& manifest) {
    return test::message_of<RuntimeError>([&] { (void)manifest_from_json(to_json(manifest)); });
  };
  Manifest gap = example();
  gap.tensors["wte"].pieces.pop_back();
  EXPECT_THAT(refusal(gap), HasSubstr("'wte' do not make it whole: they have 13 of 16 elements"));
  Manifest twice = example();
  twice.tensors["wte"].pieces[1].part.begin = 2;
  EXPECT_THAT(refusal(twice), HasSubstr("'wte' do not make it whole: element 2 of a block is in two of them"));
  Manifest outside = example();
  outside.tensors["wte"].pieces[0].part.dims[0].segments[1].global_begin = 7;
  EXPECT_THAT(refusal(outside), HasSubstr("outside of its tensor"));
  Manifest beyond = example();
  beyond.tensors["wte"].pieces[1].part.end = 9;
  EXPECT_THAT(refusal(beyond), HasSubstr("outside of its block"));
  Manifest elsewhere = example();
  elsewhere.files["../secret"] = {1, ""};
  EXPECT_THAT(refusal(elsewhere), HasSubstr("../secret"));
}

TEST(CheckpointManifest, OtherVersionIsNamed) {
  for (const std::string version : {"3", "9"}) {
    std::string text = to_json(example());
    text.replace(text.find("\"version\": 4"), 12, "\"version\": " + version);
    EXPECT_THAT(test::message_of<RuntimeError>([&] { (void)manifest_from_json(text); }),
                HasSubstr("version " + version + "; accepted: 4"));
  }
}

}  // namespace
}  // namespace strata::host

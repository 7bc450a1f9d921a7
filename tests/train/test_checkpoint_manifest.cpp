#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "checkpoint/checkpoint_manifest.hpp"
#include "files/file_io.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

using ::testing::HasSubstr;

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
  for (std::size_t i = 0; i < text.size(); ++i) {
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
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
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

// The format of version 0.1, in which tensors could not be pieces of flat buckets.
TEST(CheckpointManifest, TheFirstVersionIsRead) {
  const std::string text =
      R"({"configuration": "[run]\n", "files": {"rank-00000.safetensors": {"bytes": 123, "xxh3_128":
"0123456789abcdef0123456789abcdef"}}, "format": "strata-checkpoint", "samples": 70, "seed": 1337, "step": 7,
"tensors": {"b": {"dtype": "f32", "pieces": [{"dims": [[[0, 1], [3, 1]]], "file": "rank-00000.safetensors",
"key": "b"}, {"dims": [[[1, 2]]], "file": "rank-00000.safetensors", "key": "b"}], "shape": [4]}}, "version":
1, "vocabulary": {"kind": "bytes"}, "xxh3_128": "c41a704d8288687aee3e78862afcdc8f"})";
  Manifest expected;
  expected.run = {7, 1337, 70, "[run]\n", Vocabulary{}};
  expected.files["rank-00000.safetensors"] = {123, "0123456789abcdef0123456789abcdef"};
  expected.tensors["b"] = {DType::f32,
                           {4},
                           {{"rank-00000.safetensors", "b", TensorPart::block({{4, {{0, 0, 1}, {1, 3, 1}}}})},
                            {"rank-00000.safetensors", "b", TensorPart::block({{4, {{0, 1, 2}}}})}}};
  EXPECT_EQ(manifest_from_json(text), expected);
}

TEST(CheckpointManifest, OtherVersionIsNamed) {
  std::string text = to_json(example());
  text.replace(text.find("\"version\": 4"), 12, "\"version\": 9");
  EXPECT_THAT(test::message_of<RuntimeError>([&] { (void)manifest_from_json(text); }),
              HasSubstr("version 9; versions 1 to 4"));
}

}  // namespace
}  // namespace strata::host

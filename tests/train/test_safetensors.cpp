#include <gmock/gmock.h>

#include <cstring>

#include "checkpoint/safetensors.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

using ::testing::HasSubstr;

/// A file with the given header text and bytes of data.
std::string file_with(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + std::string(data_bytes, '\x11');
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string refusal(const std::string& bytes) {
    const auto path = folder_.file("tensors.safetensors", bytes);
    const std::string message = test::message_of<RuntimeError>([&] { SafetensorsFile file(path); });
    EXPECT_THAT(message, HasSubstr(path.string()));
    return message;
  }

  test::TemporaryFolder folder_;
};

TEST_F(SafetensorsTest, WhatIsWrittenIsRead) {
  std::vector<SafetensorsTensor> tensors{
      {"small", DType::bf16, {3}}, {"b", DType::f32, {2, 2}}, {"scalar", DType::f64, {}}, {"a", DType::f32, {0, 4}}};
  sort_for_safetensors(tensors);
  std::string data;
  for (std::size_t i = 0; i < tensors.size(); ++i) data += std::string(tensors[i].bytes(), static_cast<char>('a' + i));
  const std::string header = safetensors_header(tensors, {{"format", "strata"}});
  EXPECT_EQ(header.size() % 8, 0U);

  const SafetensorsFile file(folder_.file("tensors.safetensors", header + data));
  EXPECT_EQ(file.metadata().at("format"), "strata");
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& entry = file.tensors().at(tensors[i].name);
    EXPECT_EQ(entry.tensor.dtype, tensors[i].dtype);
    EXPECT_EQ(entry.tensor.shape, tensors[i].shape);
    const std::string bytes(reinterpret_cast<const char*>(entry.data.data()), entry.data.size());
    EXPECT_EQ(bytes, std::string(tensors[i].bytes(), static_cast<char>('a' + i)));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(entry.data.data()) % size_of(tensors[i].dtype), 0U);
  }
}

TEST_F(SafetensorsTest, TensorsOfOtherTypesStandApart) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"BOOL","shape":[4],"data_offsets":[8,12]},)"
                             R"("c":{"dtype":"U16","shape":[2],"data_offsets":[12,16]}})";
  const SafetensorsFile file(folder_.file("tensors.safetensors", file_with(header, 16)));
  EXPECT_EQ(file.tensors().size(), 1U);
  EXPECT_EQ(file.foreign_types(), (std::map<std::string, std::string>{{"b", "BOOL"}, {"c", "U16"}}));
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  const std::vector<SafetensorsTensor> tensors{{"x", DType::f32, {4}}};
  const std::string whole = safetensors_header(tensors, {}) + std::string(16, 'x');
  EXPECT_NO_THROW(SafetensorsFile(folder_.file("whole.safetensors", whole)));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(refusal(whole.substr(0, length)), "") << length;
  EXPECT_THAT(refusal(whole + "x"), HasSubstr("1 bytes that belong to no tensor"));
}

struct BadHeader {
  std::string header;
  const char* message;
};

class BadSafetensorsHeader : public SafetensorsTest, public ::testing::WithParamInterface<BadHeader> {};

TEST_P(BadSafetensorsHeader, IsRefused) {
  EXPECT_THAT(refusal(file_with(GetParam().header, 16)), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Headers, BadSafetensorsHeader,
    ::testing::Values(
        BadHeader{"{", "no JSON object"}, BadHeader{"[1]", "does not begin with {"},
        BadHeader{"\xFF\xFF", "does not begin with {"}, BadHeader{R"({"x":1})", "has no complete"},
        BadHeader{R"({"x":{"dtype":"F32","shape":[4]}})", "has no complete"},
        BadHeader{R"({"x":{"dtype":"F32","shape":4,"data_offsets":[0,16]}})", "has no complete"},
        BadHeader{R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0]}})", "has no complete"},
        BadHeader{R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[-16,0]}})", "has no complete"},
        BadHeader{R"({"x":{"dtype":"Q4","shape":[4],"data_offsets":[0,16]}})", "the type \"Q4\", which"},
        BadHeader{R"({"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", "8 bytes that belong to no tensor"},
        BadHeader{R"({"x":{"dtype":"BOOL","shape":[4],"data_offsets":[0,16]}})", "of 4 bytes has data_offsets"},
        BadHeader{R"({"x":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "impossible shape"},
        BadHeader{R"({"x":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})", "impossible shape"},
        BadHeader{R"({"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", "impossible shape"},
        BadHeader{R"({"x":{"dtype":"F32","shape":[5],"data_offsets":[0,16]}})", "of 20 bytes"},
        BadHeader{R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})", "of 16 bytes"},
        BadHeader{R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})", "expected from 0"},
        BadHeader{R"({"x":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}})", "within 16"},
        BadHeader{
            R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}})",
            "expected from 8"},
        BadHeader{R"({"__metadata__":{"a":1},"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "no text"},
        BadHeader{R"({"x":{"dtype":"I32","dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
                  "the name \"dtype\" twice"},
        BadHeader{
            R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"x":{"dtype":"I32","shape":[4],"data_offsets":[0,16]}})",
            "the name \"x\" twice"},
        BadHeader{R"({"__metadata__":3})", "metadata is no JSON object"}, BadHeader{" {}", "does not begin with {"},
        BadHeader{std::string(R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})") + '\0',
                  "a zero byte at 55"}));

TEST_F(SafetensorsTest, HugeHeaderLengthIsRefused) {
  EXPECT_THAT(refusal(std::string(8, '\xFF') + "{}"), HasSubstr("announces a header"));
}

}  // namespace
}  // namespace strata::host

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>

#include "strata/data_file.hpp"
#include "strata/error.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing {
namespace {

using host::test::message_of;
using ::testing::HasSubstr;

class DataFileTest : public ::testing::Test {
 protected:
  static std::string refusal(const std::filesystem::path& path) {
    return message_of<ConfigurationError>([&] { const DataFile file(path); });
  }
  [[nodiscard]] std::string fingerprint_of(const std::string& bytes) const {
    const DataFile file(folder_.file("data", bytes));
    return fingerprint({&file, 1});
  }

  host::test::TemporaryFolder folder_;
};

TEST_F(DataFileTest, ReadsAnyPart) {
  const DataFile file(folder_.file("data", "0123456789"));
  std::array<char, 4> part{};
  file.read(3, 4, part.data());
  EXPECT_EQ(std::string(part.data(), 4), "3456");
  EXPECT_EQ(file.bytes(), 10);
}

TEST_F(DataFileTest, FilesThatCannotBeDataAreNamed) {
  const auto path = [&](const char* name) { return folder_.path() / name; };
  EXPECT_EQ(refusal(path("missing")),
            "'" + path("missing").string() + "': cannot be opened: No such file or directory");
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("is not a regular file"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(path("pipe")), HasSubstr("pipe': is not a regular file"));
  EXPECT_THAT(refusal(folder_.file("empty", "")), HasSubstr("empty': the file is empty"));
}

/// A file that shrinks is an error with its place. It ended the process when files were mapped.
TEST_F(DataFileTest, AFileThatShrinksIsAnError) {
  const DataFile file(folder_.file("data", std::string(10000, 'x')));
  std::filesystem::resize_file(file.path(), 5000);
  std::vector<char> part(2000);
  EXPECT_NO_THROW(file.read(1000, 2000, part.data()));
  EXPECT_EQ(
      message_of<RuntimeError>([&] { file.read(4000, 2000, part.data()); }),
      "'" + file.path().string() +
          "': found the end of the file at byte 5000; expected 1000 more bytes, since the file had 10000 when the "
          "run began");
  // A file that disappears stays readable until it is closed.
  std::filesystem::remove(file.path());
  EXPECT_NO_THROW(file.read(1000, 2000, part.data()));
}

TEST_F(DataFileTest, FingerprintsTellContentsApart) {
  const std::string small(1000, 'x');
  EXPECT_EQ(fingerprint_of(small), fingerprint_of(small));
  EXPECT_NE(fingerprint_of(small), fingerprint_of(small + "x"));
  std::string changed = small;
  changed[500] = 'y';
  EXPECT_NE(fingerprint_of(small), fingerprint_of(changed));

  // Of a large file, 64 blocks are compared, among them the first and the last.
  std::string large(3 << 20, 'x');
  const std::string before = fingerprint_of(large);
  for (const std::size_t at : {std::size_t{0}, large.size() - 1}) {
    std::string other = large;
    other[at] = 'y';
    EXPECT_NE(fingerprint_of(other), before) << at;
  }
  EXPECT_NE(fingerprint_of(large + "x"), before);
  EXPECT_EQ(before.size(), 32U);
}

}  // namespace
}  // namespace strata::testing

#include <gmock/gmock.h>

#include <filesystem>
#include <numeric>

#include "log/run_log.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char each : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(each) >> 4U];
    text += "0123456789abcdef"[static_cast<unsigned char>(each) & 15U];
  }
  return text;
}

// RFC 3720, appendix B.4, and the check value of the catalogue of checksums.
TEST(EventRecords, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c(""), 0U);
}

// The bytes that TensorBoard's own RecordWriter writes for Event(wall_time=1.5, step=300, summary={"a/b": 0.25}).
TEST(EventRecords, AreThoseOfTensorBoard) {
  EXPECT_EQ(hex(scalar_record(1.5, 300, {{"a/b", 0.25}})),
            "1a00000000000000129bd82d09000000000000f83f10ac022a0c0a0a0a03612f"
            "62150000803ef9cde7ed");
}

TEST(TensorBoardLog, WithoutAFileTrainingGoesOn) {
  TensorBoardLog log("/nowhere");
  log.clear();
  log.step({.step = 1});
  log.cut_back(1, false, 0);
  EXPECT_THAT(log.failure().value_or(""), ::testing::HasSubstr("cannot be opened: No such file or directory"));
  EXPECT_THAT(log.failure().value_or(""), ::testing::HasSubstr("log.tensorboard: '/nowhere/events.out.tfevents."));
}

TEST(TensorBoardLog, AFileThatOpensLateBeginsWithItsVersion) {
  const test::TemporaryFolder folder;
  TensorBoardLog log(folder.path() / "late");
  log.clear();
  log.evaluation({.step = 1, .loss = 2});
  std::filesystem::create_directory(folder.path() / "late");
  log.evaluation({.step = 2, .loss = 1});
  const auto file = std::filesystem::directory_iterator(folder.path() / "late")->path();
  const std::string bytes = test::read_file(file);
  // A record begins with its length in 8 bytes and its checksum. Before the text, the event has its time and two
  // headers.
  EXPECT_EQ(bytes.substr(12, static_cast<unsigned char>(bytes[0])).find("brain.Event:2"), 13U) << hex(bytes);
  EXPECT_NE(bytes.find("loss/validation"), std::string::npos);
}

}  // namespace
}  // namespace strata::host

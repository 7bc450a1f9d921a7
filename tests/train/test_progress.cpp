#include <gmock/gmock.h>

#include <sstream>

#include "files/text_format.hpp"
#include "log/progress.hpp"

namespace strata::host {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

StepRecord record(std::uint64_t step) {
  return {.step = step,
          .loss = 2.34567,
          .gradient_norm = 0.98,
          .learning_rate = 3e-4,
          .tokens_per_second = 12345,
          .seconds = 2};
}

TEST(Progress, PlainLinesComeNowAndThen) {
  std::ostringstream stream;
  {
    Progress progress(stream, {.terminal = false, .every = 4}, 0, 10);
    for (std::uint64_t step = 1; step <= 10; ++step) progress.step(record(step));
  }
  std::vector<std::string> lines;
  std::istringstream text(stream.str());
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 4U) << stream.str();
  EXPECT_THAT(lines[0], StartsWith("step 1/10  loss 2.3457  norm 0.980  lr 3.00e-04  12.3k tokens/s  "));
  EXPECT_THAT(lines[0], HasSubstr("  18s left"));
  EXPECT_THAT(lines[1], StartsWith("step 4/10 "));
  EXPECT_THAT(lines[2], StartsWith("step 8/10 "));
  EXPECT_THAT(lines[3], StartsWith("step 10/10 "));
  EXPECT_THAT(stream.str(), Not(HasSubstr("\x1b")));
}

TEST(Progress, ShowsMetricsWithoutNumbersInTheirNames) {
  StepRecord shown = record(1);
  shown.metrics = {{"load.0.largest", 1.5}, {"load.1.largest", 2}, {"load.largest", 1.75}};
  std::ostringstream stream;
  Progress(stream, {.terminal = false, .every = 1}, 0, 10).step(shown);
  EXPECT_THAT(stream.str(), HasSubstr("  lr 3.00e-04  load.largest 1.75  12.3k tokens/s"));
}

TEST(Progress, ATerminalHasOneLineThatNotesDoNotTear) {
  std::ostringstream stream;
  {
    Progress progress(stream, {.terminal = true, .every = 4}, 100, 110);
    progress.step(record(101));
    progress.step(record(102));
    progress.note("a note");
    progress.step(record(103));
  }
  const std::string text = stream.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << "one after the note, one at the end";
  EXPECT_THAT(text, HasSubstr("\r\x1b[Ka note\nstep 102/110"));
  EXPECT_THAT(text, HasSubstr("16s left"));
}

TEST(Progress, NumbersAreShort) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(850), "850");
  EXPECT_EQ(short_number(999.9), "1.00k");
  EXPECT_EQ(short_number(12345), "12.3k");
  EXPECT_EQ(short_number(4.5678e6), "4.57M");
  EXPECT_EQ(short_bytes(1023), "1023 B");
  EXPECT_EQ(short_bytes(12600), "12.3 KiB");
  EXPECT_EQ(short_bytes(std::int64_t{5} << 30), "5.00 GiB");
  EXPECT_EQ(short_duration(0), "0s");
  EXPECT_EQ(short_duration(59.4), "59s");
  EXPECT_EQ(short_duration(185), "3m05s");
  EXPECT_EQ(short_duration(7620), "2h07m");
  EXPECT_EQ(short_duration(356400), "4d03h");
}

}  // namespace
}  // namespace strata::host

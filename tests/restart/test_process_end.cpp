#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "launch/launch_protocol.hpp"
#include "launch/rank_processes.hpp"
#include "train/temporary_folder.hpp"

namespace strata::host {
namespace {

TEST(ProcessEnds, TheKernelCountsThoseThatItEndedForWantOfMemory) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(out_of_memory_kills(folder.file("vmstat", "pgfault 17\noom_kill 3\npgmajfault 2\n")), 3);
  EXPECT_EQ(out_of_memory_kills(folder.file("older", "pgfault 17\n")), 0);
  EXPECT_EQ(out_of_memory_kills(folder.path() / "missing"), 0);
}

TEST(ProcessEnds, AKilledRankSaysThatMemoryRanOut) {
  ProcessEnd end{.rank = 1, .signal = SIGKILL, .out_of_memory = true};
  const std::string text =
      "rank 1 was ended by signal 9 (Killed), when the kernel ended a process because memory ran out";
  EXPECT_EQ(describe(end), text);
  EXPECT_EQ(describe(process_end(to_frame(end))), text) << "on another host";
  end.out_of_memory = false;
  EXPECT_EQ(describe(process_end(to_frame(end))), "rank 1 was ended by signal 9 (Killed)");
}

}  // namespace
}  // namespace strata::host

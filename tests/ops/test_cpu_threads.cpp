/// \file
/// What the cpu device says of threads that share cores.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "devices.hpp"
#include "one_core.hpp"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The notes of a device with `threads` for one of `ranks` ranks, on a thread that is bound to one core.
std::vector<std::string> notes_on_one_core(std::int64_t threads, int ranks) {
  std::vector<std::string> notes;
  testing::on_one_core([&] {
    notes = testing::make_device("cpu", {{"threads", threads}}, {.ranks_on_host = ranks})->notes();
  });
  return notes;
}

TEST(CpuThreads, AreNotedIfTheyShareACore) {
  EXPECT_THAT(notes_on_one_core(0, 1), IsEmpty());
  EXPECT_THAT(notes_on_one_core(3, 1), ElementsAre(HasSubstr("3 threads share 1 core")));
}

TEST(CpuThreads, AreNotedIfALauncherBindsTheRank) {
  if (::sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "this machine has one core";
  EXPECT_THAT(notes_on_one_core(0, 2), ElementsAre(HasSubstr("this process may use 1 core of the machine's")));
}

}  // namespace
}  // namespace strata

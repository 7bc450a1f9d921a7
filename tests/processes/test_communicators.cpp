/// \file
/// The cases of the conformance kit, for communicators whose ranks are processes.

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

#include "build_paths.hpp"
#include "processes/mpirun.hpp"
#include "processes/process_group.hpp"

namespace strata::testing {
namespace {

/// A communicator, and how its processes start.
struct Row {
  std::string plugin;
  /// A command that starts all processes, before the program's words. "COUNT" stands for their number. Empty: the test
  /// starts each process with its rank in RANK.
  std::vector<std::string> launcher = {};
};

const std::vector<Row> kRows{{.plugin = "gloo"}, {.plugin = "mpi", .launcher = mpirun("COUNT")}};

/// A case of rank_cases.cpp, with the number of ranks, and how many of them each process runs.
struct CaseRun {
  std::string name;
  int ranks = 2;
  bool streams = false;
  int threads = 1;
};

const std::vector<CaseRun> kRuns{{"collectives", 1},
                                 {"collectives", 2},
                                 {"collectives", 3},
                                 {"collectives", 8},
                                 {"collectives", 3, true},
                                 {"long", 2},
                                 {"long", 3},
                                 {"marked_rows", 3},

                                 {"order", 3},
                                 {"groups", 2},
                                 {"groups", 3},
                                 {"groups", 3, true},
                                 {"messages", 1},
                                 {"messages", 2},
                                 {"messages", 2, true},
                                 {"interleaving", 4},
                                 {"interleaving", 4, true},
                                 {"mismatches", 3},
                                 {"names", 2},
                                 {"lengths", 2},
                                 {"abort", 4},
                                 {"timeout", 2},
                                 {"impossible_groups", 2}};

/// Ranks that are threads of several processes, or of a single one.
const std::vector<CaseRun> kThreadRuns{
    {"collectives", 4, false, 2}, {"collectives", 8, false, 4},  {"collectives", 4, true, 2},
    {"long", 4, false, 2},        {"marked_rows", 4, false, 2},  {"order", 3, false, 3},
    {"groups", 2, false, 2},      {"groups", 3, true, 3},        {"messages", 2, false, 2},
    {"messages", 2, true, 2},     {"interleaving", 4, false, 2}, {"interleaving", 4, true, 2},
    {"mismatches", 3, false, 3},  {"names", 4, false, 2},        {"lengths", 2, false, 2},
    {"abort", 4, false, 2},       {"timeout", 2, false, 2},      {"impossible_groups", 2, false, 2}};

void PrintTo(const Row& row, std::ostream* out) { *out << row.plugin; }
void PrintTo(const CaseRun& run, std::ostream* out) {
  *out << run.name << " among " << run.ranks << ", " << run.threads << " in a process";
}

class Processes : public ::testing::TestWithParam<std::tuple<Row, CaseRun>> {
 protected:
  /// Starts the processes of a run.
  void start(const Row& row, const CaseRun& run) {
    const int processes = run.ranks / run.threads;
    const std::string count = std::to_string(processes);
    std::vector<std::string> words{build_path(STRATA_RANK_PROGRAM), plugin(row),   run.name, std::to_string(run.ranks),
                                   std::to_string(run.threads),     folder_.path()};
    if (run.streams) words.emplace_back("streams");
    if (row.launcher.empty()) {
      for (int rank = 0; rank < processes; ++rank) group_.start(words, {{"RANK", std::to_string(rank)}});
      return;
    }
    std::vector<std::string> launched = row.launcher;
    std::replace(launched.begin(), launched.end(), std::string("COUNT"), count);
    launched.insert(launched.end(), words.begin(), words.end());
    group_.start(launched, {});
  }

  static std::string plugin(const Row& row) { return plugin_folder() + "/communicator_" + row.plugin + ".so"; }

  host::test::TemporaryFolder folder_;
  ProcessGroup group_;
};

TEST_P(Processes, Conform) {
  const auto& [row, run] = GetParam();
  if (!std::filesystem::exists(plugin(row))) GTEST_SKIP() << "the plugin is not built";
  start(row, run);
  const std::vector<GroupEnd> ends = group_.wait(std::chrono::seconds(300));
  for (std::size_t process = 0; process < ends.size(); ++process) {
    EXPECT_EQ(ends[process].exit_code, 0) << "process " << process << ", signal " << ends[process].signal << "\n"
                                          << ends[process].output;
  }
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Row, CaseRun>>& info) {
  const auto& [row, run] = info.param;
  return row.plugin + "_" + run.name + (run.streams ? "_on_streams_" : "_") + std::to_string(run.ranks) +
         (run.threads == 1 ? "" : "_by_" + std::to_string(run.threads));
}

INSTANTIATE_TEST_SUITE_P(Communicators, Processes,
                         ::testing::Combine(::testing::ValuesIn(kRows), ::testing::ValuesIn(kRuns)), name_of);
INSTANTIATE_TEST_SUITE_P(Threads, Processes,
                         ::testing::Combine(::testing::Values(kRows.front()), ::testing::ValuesIn(kThreadRuns)),
                         name_of);

}  // namespace
}  // namespace strata::testing

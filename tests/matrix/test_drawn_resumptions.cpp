#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

#include "build_paths.hpp"
#include "matrix/resumed_run.hpp"

namespace strata::testing {
namespace {

struct Communicator {
  const char* name;
  std::uint64_t first;
  std::uint64_t count;
};

void PrintTo(const Communicator& communicator, std::ostream* out) { *out << communicator.name; }

class DrawnResumptions : public ::testing::TestWithParam<Communicator> {};

/// Models that are no GPT: ranks in threads or processes neither hang nor train, evaluate or continue another stack's
/// checkpoint differently from one rank.
TEST_P(DrawnResumptions, TrainAsOneRank) {
  const auto [name, first, count] = GetParam();
  if (!std::filesystem::exists(plugin_folder() + "/communicator_" + name + ".so")) {
    GTEST_SKIP() << "the plugin is not built";
  }
  EXPECT_EQ(run_resumptions(name, first, count, 2, plugin_folder(), std::cout), 0);
}

// Number 142 hung on mpi, in one of five runs.
INSTANTIATE_TEST_SUITE_P(Each, DrawnResumptions,
                         ::testing::Values(Communicator{"local", 0, 30}, Communicator{"gloo", 0, 10},
                                           Communicator{"mpi", 135, 10}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing

/// \file
/// The cores and the memory that a process may use, by its affinity and by control groups of both versions.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "../../sdk/src/system/control_groups.hpp"
#include "one_core.hpp"
#include "strata/machine.hpp"
#include "train/temporary_folder.hpp"

namespace strata {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

class ControlGroups : public ::testing::Test {
 protected:
  /// The limits with these files in the folder of control groups.
  [[nodiscard]] GroupLimits limits(const std::string& membership,
                                   const std::map<std::string, std::string>& files) const {
    const std::filesystem::path mount = folder_.path() / "cgroup";
    for (const auto& [name, content] : files) {
      std::filesystem::create_directories((mount / name).parent_path());
      std::ofstream(mount / name) << content;
    }
    return read_group_limits(folder_.file("membership", membership), mount);
  }

  host::test::TemporaryFolder folder_;
};

TEST_F(ControlGroups, NothingLimitsWithoutThem) {
  EXPECT_TRUE(std::isinf(limits("0::/job\n", {}).cores));
  const GroupLimits open = limits("0::/job\n", {{"job/cpu.max", "max 100000\n"}, {"job/memory.max", "max\n"}});
  EXPECT_TRUE(std::isinf(open.cores));
  EXPECT_EQ(open.memory_bytes, std::numeric_limits<std::int64_t>::max());
}

TEST_F(ControlGroups, TheTightestLevelOfVersion2Counts) {
  const GroupLimits found = limits("0::/slice/job\n", {{"slice/cpu.max", "150000 100000\n"},
                                                       {"slice/job/cpu.max", "400000 100000\n"},
                                                       {"slice/memory.max", std::to_string(64 * kMiB)},
                                                       {"slice/memory.current", std::to_string(48 * kMiB)},
                                                       {"slice/memory.stat", "anon 4096\ninactive_file 8388608\n"},
                                                       {"slice/job/memory.max", std::to_string(512 * kMiB)}});
  EXPECT_EQ(found.cores, 1.5);
  EXPECT_EQ(found.memory_bytes, 24 * kMiB) << "64 MiB without 48 that are used, of which 8 can be dropped";
}

TEST_F(ControlGroups, Version1HasAHierarchyForEachController) {
  const GroupLimits found =
      limits("4:memory:/job\n2:cpu,cpuacct:/job\n", {{"memory/memory.limit_in_bytes", "9223372036854771712\n"},
                                                     {"memory/job/memory.limit_in_bytes", std::to_string(64 * kMiB)},
                                                     {"memory/job/memory.usage_in_bytes", std::to_string(16 * kMiB)},
                                                     {"memory/job/memory.stat", "total_inactive_file 0\n"},
                                                     {"cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n"},
                                                     {"cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"}});
  EXPECT_EQ(found.cores, 2);
  EXPECT_EQ(found.memory_bytes, 48 * kMiB);
}

/// The path is that of the host, and the mount that of the container.
TEST_F(ControlGroups, TheRootCountsInAContainer) {
  EXPECT_EQ(limits("4:memory:/docker/4711\n", {{"memory/memory.limit_in_bytes", std::to_string(kMiB)}}).memory_bytes,
            kMiB);
}

TEST(Machine, CoresFollowTheAffinity) {
  int cores = 0;
  testing::on_one_core([&] { cores = usable_cores(); });
  EXPECT_EQ(cores, 1);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_GT(usable_memory_bytes(), 0);
}

}  // namespace
}  // namespace strata

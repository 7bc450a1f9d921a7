#include "strata/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "control_groups.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// The number at the beginning of a file. Empty for "max", and if there is none.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::int64_t value = 0;
  if (!(std::ifstream(file) >> value)) return std::nullopt;
  return value;
}

/// The number after a word of a file with lines such as "inactive_file 4096". 0 if there is none.
std::int64_t field_of(const fs::path& file, const std::string& word) {
  std::ifstream stream(file);
  std::string key;
  for (std::int64_t value = 0; stream >> key >> value;) {
    if (key == word) return value;
  }
  return 0;
}

/// The files in which a version of control groups keeps a group's memory.
struct MemoryFiles {
  const char* limit;
  const char* usage;
  const char* droppable;
};
constexpr MemoryFiles kMemory1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr MemoryFiles kMemory2{"memory.max", "memory.current", "inactive_file"};

void limit_memory(const fs::path& group, const MemoryFiles& files, GroupLimits& limits) {
  const auto limit = number_in(group / files.limit);
  if (!limit) return;
  const std::int64_t used = number_in(group / files.usage).value_or(0);
  const std::int64_t droppable = std::min(used, field_of(group / "memory.stat", files.droppable));
  limits.memory_bytes = std::min(limits.memory_bytes, std::max<std::int64_t>(0, *limit - used + droppable));
}

void limit_cores(std::optional<std::int64_t> quota, std::optional<std::int64_t> period, GroupLimits& limits) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  limits.cores = std::min(limits.cores, static_cast<double>(*quota) / static_cast<double>(*period));
}

/// Limits by the files of one group of any version.
void limit_by(const fs::path& group, GroupLimits& limits) {
  limit_memory(group, kMemory1, limits);
  limit_memory(group, kMemory2, limits);
  limit_cores(number_in(group / "cpu.cfs_quota_us"), number_in(group / "cpu.cfs_period_us"), limits);
  std::ifstream both(group / "cpu.max");  // quota and period
  std::int64_t quota = 0;
  std::int64_t period = 0;
  if (both >> quota >> period) limit_cores(quota, period, limits);
}

/// The folders in which the hierarchy with these controllers may be mounted. Version 2 has none in its line.
std::vector<fs::path> mounts_of(const std::string& controllers, const fs::path& mount) {
  if (controllers.empty()) return {mount, mount / "unified"};
  std::vector<fs::path> mounts{mount / controllers};
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) mounts.push_back(mount / name);
  return mounts;
}

}  // namespace

GroupLimits read_group_limits(const fs::path& membership, const fs::path& mount) {
  GroupLimits limits;
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    // As in "4:memory:/system.slice/job" or "0::/job".
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (const fs::path& root : mounts_of(line.substr(first + 1, second - first - 1), mount)) {
      // In a container the path may be that of the host, and only the root is there.
      limit_by(root, limits);
      fs::path level = root;
      for (const fs::path& part : group) limit_by(level /= part, limits);
    }
  }
  return limits;
}

namespace {

GroupLimits group_limits() { return read_group_limits("/proc/self/cgroup", "/sys/fs/cgroup"); }

/// Cores of the process's affinity. All cores if the system has more than a mask counts.
int cores_of_affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) return CPU_COUNT(&mask);
  return static_cast<int>(std::thread::hardware_concurrency());
}

std::int64_t available_on_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(line.find(':') + 1)) * 1024;
  }
  return static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

int usable_cores() {
  const double quota = std::floor(group_limits().cores);
  return static_cast<int>(std::max(1.0, std::min(quota, static_cast<double>(cores_of_affinity()))));
}

std::int64_t usable_memory_bytes() { return std::min(available_on_machine(), group_limits().memory_bytes); }

}  // namespace strata

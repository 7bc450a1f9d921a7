#include "strata/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "control_groups.hpp"

namespace strata {
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

#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

namespace strata {

/// What the control groups of a process leave it, at all levels of the hierarchy.
struct GroupLimits {
  /// Infinite without a quota.
  double cores = std::numeric_limits<double>::infinity();
  /// Bytes up to the limit that the group does not use, or uses for files that the kernel can drop.
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
};

/// Reads the limits of versions 1 and 2 of control groups. `membership`: a file as /proc/self/cgroup. `mount`: a folder
/// as /sys/fs/cgroup. What cannot be read limits nothing. See cgroups(7) and the kernel's cgroup-v2.rst.
[[nodiscard]] GroupLimits read_group_limits(const std::filesystem::path& membership,
                                            const std::filesystem::path& mount);

}  // namespace strata

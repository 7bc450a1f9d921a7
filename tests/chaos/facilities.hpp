#pragma once

#include <string>
#include <vector>

#include "chaos/descriptor.hpp"

namespace strata::testing::chaos {

/// The kinds of faults that this machine and this user permit.
struct Facilities {
  std::vector<std::string> communicators;
  /// File systems in memory can be mounted.
  bool small_disks = false;
  /// Network namespaces can be made.
  bool networks = false;
  /// The library that slows writing is built.
  bool slow_disks = false;
  /// One line for each kind of fault that is left out, and why.
  std::vector<std::string> left_out;
};

/// Finds out. Call it before other threads exist: mounts of this process become its own.
[[nodiscard]] Facilities find_facilities(const std::string& plugins, const std::string& communicator,
                                         const std::string& slow_disk_library);

/// A network namespace with a loopback interface. It vanishes with its last process.
class Network {
 public:
  /// \throws std::runtime_error if this user may not make one.
  Network();
  [[nodiscard]] int descriptor() const { return descriptor_.number(); }
  void set_up(bool up) const;

 private:
  Descriptor descriptor_;
};

/// A file system in memory, mounted at a folder until the object is destroyed.
class SmallDisk {
 public:
  /// \throws std::runtime_error if this user may not mount one.
  SmallDisk(std::string folder, std::size_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  /// Leaves at most this much free space.
  void fill(std::uint64_t left) const;
  void make_room() const;

 private:
  [[nodiscard]] std::string ballast() const { return folder_ + "/ballast"; }

  std::string folder_;
};

}  // namespace strata::testing::chaos

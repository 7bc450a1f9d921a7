#include "chaos/facilities.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <thread>

#include "train/temporary_folder.hpp"

namespace strata::testing::chaos {
namespace {

std::runtime_error failure(const std::string& what) { return std::runtime_error(what + ": " + std::strerror(errno)); }

/// Calls `work` on a thread of its own, whose namespaces may change.
void on_own_thread(const std::function<void()>& work) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

void set_loopback(bool up) {
  const Descriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(static_cast<char*>(request.ifr_name), "lo", IFNAMSIZ - 1);
  request.ifr_flags = static_cast<short>(up ? IFF_UP | IFF_RUNNING : 0);
  if (::ioctl(any.number(), SIOCSIFFLAGS, &request) != 0) throw failure("the loopback interface");
}

/// Why `trial` fails, or "".
std::string reason_against(const std::function<void()>& trial) {
  try {
    trial();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void try_small_disk() {
  if (::unshare(CLONE_NEWNS) != 0) throw failure("a mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) throw failure("private mounts");
  const host::test::TemporaryFolder folder;
  const SmallDisk disk(folder.path().string(), 1U << 20U);
}

}  // namespace

Facilities find_facilities(const std::string& plugins, const std::string& communicator,
                           const std::string& slow_disk_library) {
  Facilities found;
  const auto note = [&](const std::string& what, const std::string& reason) {
    if (!reason.empty()) found.left_out.push_back(what + " left out: " + reason);
    return reason.empty();
  };
  for (const std::string name : {"gloo", "mpi"}) {
    if (!communicator.empty() && communicator != name) continue;
    const bool built = std::filesystem::exists(plugins + "/communicator_" + name + ".so");
    if (note("runs of " + name, built ? "" : "the plugin is not in " + plugins)) found.communicators.push_back(name);
  }
  found.small_disks = note("full disks", reason_against(try_small_disk));
  found.networks = note("cut connections", reason_against([] { const Network network; }));
  found.slow_disks = note("slow disks", std::filesystem::exists(slow_disk_library) ? "" : "no " + slow_disk_library);
  return found;
}

Network::Network() {
  on_own_thread([this] {
    if (::unshare(CLONE_NEWNET) != 0) throw failure("a network namespace");
    descriptor_ = Descriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (descriptor_.number() < 0) throw failure("a network namespace");
    set_loopback(true);
  });
}

void Network::set_up(bool up) const {
  on_own_thread([&] {
    if (::setns(descriptor_.number(), CLONE_NEWNET) != 0) throw failure("the network namespace");
    set_loopback(up);
  });
}

SmallDisk::SmallDisk(std::string folder, std::size_t bytes) : folder_(std::move(folder)) {
  const std::string options = "size=" + std::to_string(bytes);
  if (::mount("none", folder_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    throw failure("a file system in memory");
  }
}

SmallDisk::~SmallDisk() { ::umount2(folder_.c_str(), MNT_DETACH); }

void SmallDisk::fill(std::uint64_t left) const {
  struct statvfs status {};
  const Descriptor file(::open(ballast().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.number() < 0 || ::statvfs(folder_.c_str(), &status) != 0) throw failure(ballast());
  const std::uint64_t free = std::uint64_t{status.f_bavail} * status.f_frsize;
  // The ranks write as well, so the space may be less by now.
  for (std::uint64_t bytes = free > left ? free - left : 0; bytes > status.f_frsize; bytes -= bytes / 8) {
    if (::posix_fallocate(file.number(), 0, static_cast<off_t>(bytes)) == 0) return;
  }
}

void SmallDisk::make_room() const {
  std::error_code ignored;
  std::filesystem::remove(ballast(), ignored);
}

}  // namespace strata::testing::chaos

/// \file
/// A library that slows the writes of the processes that load it (LD_PRELOAD), as an overloaded disk or a file server
/// does. It concerns files below the folder STRATA_CHAOS_DISK:
/// - STRATA_CHAOS_SYNC_MS: milliseconds by which each fsync takes longer, and each write a tenth of it;
/// - STRATA_CHAOS_STALL_MS: milliseconds by which the third fsync of the process takes longer.

#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace {

std::atomic<int> sync_count{0};

template <class Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

bool is_slow(int descriptor) {
  const char* const folder = std::getenv("STRATA_CHAOS_DISK");
  if (folder == nullptr) return false;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 && std::string_view(path.data(), static_cast<std::size_t>(length)).starts_with(folder);
}

void wait(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

void slow_write(int descriptor) {
  if (is_slow(descriptor)) wait(number_in("STRATA_CHAOS_SYNC_MS") / 10);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) ssize_t write(int descriptor, const void* data, size_t bytes) {
  static auto* const next = next_of<ssize_t(int, const void*, size_t)>("write");
  slow_write(descriptor);
  return next(descriptor, data, bytes);
}

__attribute__((visibility("default"))) ssize_t writev(int descriptor, const iovec* parts, int count) {
  static auto* const next = next_of<ssize_t(int, const iovec*, int)>("writev");
  slow_write(descriptor);
  return next(descriptor, parts, count);
}

__attribute__((visibility("default"))) int fsync(int descriptor) {
  static auto* const next = next_of<int(int)>("fsync");
  if (is_slow(descriptor)) {
    wait(number_in("STRATA_CHAOS_SYNC_MS"));
    if (++sync_count == 3) wait(number_in("STRATA_CHAOS_STALL_MS"));
  }
  return next(descriptor);
}
}

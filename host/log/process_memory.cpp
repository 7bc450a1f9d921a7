#include "log/process_memory.hpp"

#include <fstream>
#include <limits>
#include <string>

namespace strata::host {
namespace {

std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == key && status >> kibibytes) return kibibytes * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }

std::int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace strata::host

#include "cli/openmp_waits.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace strata::host {
namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";

}  // namespace

void shorten_openmp_waits(char* const* arguments) {
  if (std::getenv(kSpinCount) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || ::setenv(kSpinCount, "1000", 0) != 0) return;
  ::execv(program.c_str(), arguments);
}

}  // namespace strata::host

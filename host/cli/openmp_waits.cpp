#include "cli/openmp_waits.hpp"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace strata::host {
namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";

}  // namespace

void shorten_openmp_waits(char* const* arguments) {
  if (std::getenv(kSpinCount) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  const bool has_libgomp = ::dlsym(RTLD_DEFAULT, "GOMP_parallel") != nullptr;
  // A program without an interpreter was started by the dynamic loader, which then is /proc/self/exe.
  if (!has_libgomp || ::getauxval(AT_BASE) == 0) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || ::setenv(kSpinCount, "1000", 0) != 0) return;
  ::execv(program.c_str(), arguments);
  ::unsetenv(kSpinCount);
}

}  // namespace strata::host

#include <gtest/gtest.h>

#include <cstdlib>

#include "nccl/backend.hpp"

namespace strata::nccl {
namespace {

TEST(LibraryEnvironment, KeepsWhatIsSet) {
  ::unsetenv("NCCL_RUNTIME_CONNECT");
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  set_library_environment();
  EXPECT_STREQ(std::getenv("NCCL_RUNTIME_CONNECT"), "0");
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "1");
  ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  set_library_environment();
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
}

}  // namespace
}  // namespace strata::nccl

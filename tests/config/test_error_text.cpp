#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <new>
#include <stdexcept>
#include <system_error>

#include "strata/error.hpp"

namespace strata {
namespace {

/// The text of `error` while the process may address no more than `mebibytes` MiB. 0: without a limit.
template <class Exception>
std::string text_of(const Exception& error, rlim_t mebibytes) {
  rlimit before{};
  EXPECT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit limit{mebibytes == 0 ? before.rlim_max : mebibytes << 20, before.rlim_max};
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  std::string text;
  try {
    throw error;
  } catch (...) {
    text = current_exception_text();
  }
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  return text;
}

// Enough for the sanitizers.
constexpr rlim_t kMuch = rlim_t{1} << 27;
const std::string kLimit = "; this process may address no more than 134217728 MiB (ulimit -v)";

TEST(ErrorText, NamesTheLimitOfAddressSpaceIfMemoryIsShort) {
  EXPECT_EQ(text_of(std::bad_alloc(), kMuch), "std::bad_alloc: out of memory" + kLimit);
  const std::system_error thread(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_EQ(text_of(thread, kMuch), "std::system_error: Resource temporarily unavailable" + kLimit);
}

TEST(ErrorText, HasTheLimitNowhereElse) {
  EXPECT_EQ(text_of(std::out_of_range("vector"), kMuch), "std::out_of_range: vector");
  EXPECT_EQ(text_of(RuntimeError("no file"), kMuch), "no file");
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
  if (limit.rlim_max != RLIM_INFINITY) GTEST_SKIP() << "this process has a limit";
  EXPECT_EQ(text_of(std::bad_alloc(), 0), "std::bad_alloc: out of memory");
}

}  // namespace
}  // namespace strata

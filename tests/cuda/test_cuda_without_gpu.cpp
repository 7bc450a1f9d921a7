// The cuda device without a GPU: its plugin loads and reports in one message what is missing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "build_paths.hpp"
#include "ops/devices.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;

class WithoutGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      make_device("cuda");
    } catch (const ConfigurationError& error) {
      message_ = error.what();
      return;
    }
    GTEST_SKIP() << "there is a GPU";
  }

  std::string message_;
};

TEST_F(WithoutGpu, TheDeviceSaysSo) { EXPECT_THAT(message_, HasSubstr("finds no NVIDIA GPU")); }

TEST_F(WithoutGpu, ACommandEndsWithOneMessage) {
  const std::string command =
      build_path("bin/strata") + " verify --device cuda " + source_path("configs/quickstart.toml") + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 256> piece{};
  while (fgets(piece.data(), piece.size(), pipe) != nullptr) output += piece.data();
  const int status = pclose(pipe);
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_THAT(output, HasSubstr("finds no NVIDIA GPU"));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
}

}  // namespace
}  // namespace strata::testing

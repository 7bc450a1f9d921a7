// Runs the tests of the cuda device if there is a GPU. Otherwise prints why not and exits with the code that ctest
// counts as skipped.

#include <gtest/gtest.h>

#include <iostream>

#include "ops/devices.hpp"
#include "strata/error.hpp"

namespace {

constexpr int kSkipped = 77;

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    std::cout << strata::testing::make_device("cuda")->description() << '\n';
  } catch (const strata::ConfigurationError& error) {
    std::cout << "skipped: no GPU (" << error.what() << ")\n";
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}

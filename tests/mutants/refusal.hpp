#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "mutator.hpp"
#include "strata/error.hpp"

namespace strata::testing {

/// Calls `use`. \return true if it refuses the input: with an error of Strata whose text a terminal can print and that
/// has `name` in it. Any other exception fails the test.
inline bool is_refused(const std::string& name, const std::function<void()>& use) {
  try {
    use();
    return false;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(is_presentable(message)) << message.size() << " bytes: " << message.substr(0, 400);
    EXPECT_NE(message.find(name), message.npos) << message;
  } catch (...) {
    ADD_FAILURE() << current_exception_text();
  }
  return true;
}

}  // namespace strata::testing

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "scripted_strategy.hpp"
#include "small_model.hpp"
#include "stack_test.hpp"
#include "strata/error.hpp"

namespace strata::testing {

using Hooks = ScriptedStrategy::Hooks;

/// Compiles stacks of scripted strategies around a small model.
class StrategyFaults : public ::testing::Test {
 protected:
  [[nodiscard]] host::CompileRequest request(const std::vector<Hooks>& strategies) {
    host::CompileRequest request = runner_.request(std::make_shared<SmallModel>(), 8, 2);
    for (const Hooks& hooks : strategies) {
      const std::string number = std::to_string(request.strategies.size() + 1);
      request.strategies.push_back({"strategy " + number, std::make_shared<ScriptedStrategy>(hooks)});
    }
    return request;
  }

  /// The message with which compiling a stack of these strategies is refused.
  [[nodiscard]] std::string refusal(const std::vector<Hooks>& strategies) {
    try {
      static_cast<void>(host::compile(request(strategies)));
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  StackRunner runner_;
};

}  // namespace strata::testing

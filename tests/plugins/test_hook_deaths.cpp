/// \file
/// A hook that ends the process, or throws what has no text: each command names the plugin and the hook, and none ends
/// with 0.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "check_of_faults.hpp"
#include "sanitized.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using ::testing::HasSubstr;

/// A way in which a hook ends the process.
struct Death {
  const char* name;
  std::string end;
  int signal;
  int exit_code;
  /// What is on standard error after the plugin and the hook.
  std::string message;
};

void PrintTo(const Death& death, std::ostream* out) { *out << death.name; }

class DeathInAHook : public CommandsBesideSamples, public ::testing::WithParamInterface<Death> {};

TEST_P(DeathInAHook, NamesThePluginInEveryCommand) {
  const Death& death = GetParam();
  // Sanitizers have handlers of their own, which name the fault's line.
  if (testing::kSanitized && death.signal != 0) GTEST_SKIP();
  const std::string message = "strategy 1 'crashing': hook 'create'" + death.message;
  for (const char* command : {"check", "train"}) {
    const CommandResult result = run(command, {"strategy=[{plugin=\"crashing\", end=\"" + death.end + "\"}]"});
    EXPECT_EQ(result.signal, death.signal) << command << result.messages;
    if (death.signal == 0 && std::string(command) == "train") {
      EXPECT_EQ(result.exit_code, death.exit_code);
    }
    EXPECT_NE(result.exit_code, 0) << command;
    EXPECT_THAT(result.messages, HasSubstr(message)) << command;
  }
  const CommandResult kit = test::run_command({"plugins", "check", sample_plugin_folder() + "/strategy_crashing.so",
                                               "--only", "P06", "--set", "strategy.end=" + death.end});
  EXPECT_EQ(kit.signal, 0);
  EXPECT_EQ(kit.exit_code, 1) << kit.out;
  EXPECT_THAT(kit.out + kit.messages, HasSubstr("'crashing': hook 'create'" + death.message));
}

constexpr const char* kEnded = " ended the program";

INSTANTIATE_TEST_SUITE_P(
    EveryWay, DeathInAHook,
    ::testing::Values(Death{"runtime_error", "runtime error", 0, 1, ": boom"},
                      Death{"null_what", "null what", 0, 1, ": (its what() returns a null pointer)"},
                      Death{"throwing_what", "throwing what", SIGABRT, -1, kEnded},
                      Death{"abort", "signal", SIGABRT, -1, kEnded},
                      Death{"abort_in_a_destructor", "destructor", SIGABRT, -1, kEnded},
                      Death{"terminate", "terminate", SIGABRT, -1, kEnded},
                      Death{"segmentation_fault", "segmentation fault", SIGSEGV, -1, kEnded},
                      Death{"endless_recursion", "recursion", SIGSEGV, -1, kEnded},
                      Death{"throwing_thread", "thread", SIGABRT, -1, " ran when another thread ended the program"},
                      Death{"exit", "exit", 0, 3, kEnded}, Death{"exit_with_0", "exit with 0", 0, 1, kEnded},
                      Death{"quick_exit_with_0", "quick exit with 0", 0, 1, kEnded}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::host

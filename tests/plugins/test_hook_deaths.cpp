/// \file
/// Hooks that end the process, throw, or do not end: each command names the plugin and the hook, none that a hook ends
/// has exit code 0, and one error has one exit code.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "check_of_faults.hpp"
#include "sanitized.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using ::testing::HasSubstr;

/// Overrides that make the hook `hook` of a sample plugin end as `end` says. See samples/endings.hpp.
std::vector<std::string> ending(const std::string& plugin, const std::string& hook, const std::string& end) {
  const std::string fault = "\"" + hook + ": " + end + "\"";
  if (plugin == "strategy") return {"strategy=[{plugin=\"crashing\", fault=" + fault + "}]"};
  if (plugin == "library") {
    return {"library=[{plugin=\"faulty_ops\", fault=" + fault + "}]", "model.op=tripled", "device.plugin=cpu",
            "device.threads=1"};
  }
  if (plugin == "model") return {"model.fault=" + fault};
  if (plugin == "communicator") {
    return {"communicator.plugin=faulty_communicator", "communicator.fault=" + fault,
            "strategy=[{plugin=\"ddp\", size=2}]", "batch.micro=2"};
  }
  const std::string table = plugin == "dataset" ? "data" : plugin;
  return {table + ".plugin=faulty_" + plugin, table + ".fault=" + fault};
}

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
    const CommandResult result = run(command, ending("strategy", "create", death.end));
    EXPECT_EQ(result.signal, death.signal) << command << result.messages;
    EXPECT_EQ(result.exit_code, death.exit_code) << command;
    EXPECT_THAT(result.messages, HasSubstr(message)) << command;
  }
  const CommandResult kit = test::run_command({"plugins", "check", sample_plugin_folder() + "/strategy_crashing.so",
                                               "--only", "P06", "--set", "strategy.fault=create: " + death.end});
  EXPECT_EQ(kit.signal, 0);
  EXPECT_EQ(kit.exit_code, 1) << kit.out;
  EXPECT_THAT(kit.out + kit.messages, HasSubstr("'crashing': hook 'create'" + death.message));
}

constexpr const char* kEnded = " ended the program";

INSTANTIATE_TEST_SUITE_P(
    EveryWay, DeathInAHook,
    ::testing::Values(Death{"null_what", "null what", 0, 1, ": (its what() returns a null pointer)"},
                      Death{"throwing_what", "throwing what", SIGABRT, -1, kEnded},
                      Death{"abort", "abort", SIGABRT, -1, kEnded},
                      Death{"abort_in_a_destructor", "destructor", SIGABRT, -1, kEnded},
                      Death{"terminate", "terminate", SIGABRT, -1, kEnded},
                      Death{"segmentation_fault", "segmentation fault", SIGSEGV, -1, kEnded},
                      Death{"endless_recursion", "recursion", SIGSEGV, -1, kEnded},
                      Death{"throwing_thread", "thread", SIGABRT, -1, " ran when another thread ended the program"},
                      Death{"exit", "exit", 0, 3, kEnded}, Death{"exit_with_0", "exit with 0", 0, 1, kEnded},
                      Death{"quick_exit_with_0", "quick exit with 0", 0, 1, kEnded}),
    [](const auto& info) { return info.param.name; });

/// A hook that training calls.
struct Hook {
  const char* name;
  std::string plugin;
  std::string hook;
  /// The plugin and the hook in messages.
  std::string named;
  /// Destructors cannot fail in other ways.
  bool throws = true;
};

void PrintTo(const Hook& hook, std::ostream* out) { *out << hook.name; }

class EveryHook : public CommandsBesideSamples, public ::testing::WithParamInterface<Hook> {};

TEST_P(EveryHook, IsNamedWhenItEndsTheProgram) {
  if (testing::kSanitized) GTEST_SKIP();
  const CommandResult result = run("train", ending(GetParam().plugin, GetParam().hook, "abort"));
  EXPECT_EQ(result.signal, SIGABRT) << result.messages;
  EXPECT_THAT(result.messages, HasSubstr("error: " + GetParam().named + " ended the program\n"));
}

TEST_P(EveryHook, IsNamedWhenItThrows) {
  if (!GetParam().throws) {
    if (testing::kSanitized) GTEST_SKIP();
    const CommandResult result = run("train", ending(GetParam().plugin, GetParam().hook, "number"));
    EXPECT_EQ(result.signal, SIGABRT) << result.messages;
    EXPECT_THAT(result.messages, HasSubstr("error: " + GetParam().named + " ended the program\n"));
    return;
  }
  const std::vector<std::pair<std::string, std::string>> messages = {
      {"runtime error", ": boom"},
      {"verification error", ": boom"},
      {"null what", ": (its what() returns a null pointer)"},
      {"number", " threw an exception of type int"}};
  for (const auto& [end, message] : messages) {
    const CommandResult result = run("train", ending(GetParam().plugin, GetParam().hook, end));
    EXPECT_EQ(result.signal, 0) << end;
    EXPECT_THAT(result.messages, HasSubstr(GetParam().named + message)) << end;
    if (end == "number") continue;
    EXPECT_EQ(result.exit_code, 1) << end << result.messages;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Training, EveryHook,
    ::testing::Values(
        Hook{"axes", "strategy", "axes", "strategy 1 'crashing': hook 'axes'"},
        Hook{"rules", "strategy", "rules", "strategy 1 'crashing': hook 'rules'"},
        Hook{"end_of_a_strategy", "strategy", "destructor", "strategy 1 'crashing': hook 'destructor'", false},
        Hook{"build", "model", "build", "model 'sample_model': hook 'build'"},
        Hook{"end_of_a_model", "model", "destructor", "model 'sample_model': hook 'destructor'", false},
        Hook{"open", "dataset", "open", "dataset 'faulty_dataset': hook 'open'"},
        Hook{"read", "dataset", "read", "dataset 'faulty_dataset': hook 'read'"},
        Hook{"end_of_a_dataset", "dataset", "destructor", "dataset 'faulty_dataset': hook 'destructor'", false},
        Hook{"update", "optimizer", "update", "optimizer 'faulty_optimizer': hook 'update'"},
        Hook{"end_of_an_optimizer", "optimizer", "destructor", "optimizer 'faulty_optimizer': hook 'destructor'",
             false},
        Hook{"prepare", "device", "prepare", "device 'faulty_device': hook 'prepare'"},
        Hook{"launch", "device", "launch", "device 'faulty_device': hook 'launch'"},
        Hook{"end_of_a_kernel", "device", "kernel destructor", "device 'faulty_device': hook 'destructor'", false},
        Hook{"end_of_memory", "device", "release of memory", "device 'faulty_device': hook 'release of memory'", false},
        Hook{"end_of_a_device", "device", "destructor", "device 'faulty_device': hook 'destructor'", false},
        Hook{"connect", "communicator", "connect", "communicator 'faulty_communicator': hook 'connect'"},
        Hook{"make_ready", "communicator", "make_ready", "communicator 'faulty_communicator': hook 'make_ready'"},
        Hook{"create_group", "communicator", "create_group", "communicator 'faulty_communicator': hook 'create_group'"},
        Hook{"start", "communicator", "start", "communicator 'faulty_communicator': hook 'start'"},
        Hook{"wait", "communicator", "wait", "communicator 'faulty_communicator': hook 'wait'"},
        Hook{"check", "communicator", "check", "communicator 'faulty_communicator': hook 'check'"},
        Hook{"end_of_a_request", "communicator", "request destructor",
             "communicator 'faulty_communicator': hook 'destructor'", false},
        Hook{"end_of_a_communicator", "communicator", "destructor",
             "communicator 'faulty_communicator': hook 'destructor'", false},
        Hook{"infer", "library", "infer", "op 'tripled' of library 1 'faulty_ops': hook 'infer'"},
        Hook{"gradient", "library", "gradient", "op 'tripled' of library 1 'faulty_ops': hook 'gradient'"},
        Hook{"end_of_an_op", "library", "destructor", "op 'tripled' of library 1 'faulty_ops': hook 'destructor'",
             false},
        Hook{"unsupported", "library", "unsupported",
             "the kernel of library 1 'faulty_ops' for op 'tripled': hook 'unsupported'"},
        Hook{"prepare_of_a_kernel", "library", "prepare",
             "the kernel of library 1 'faulty_ops' for op 'tripled': hook 'prepare'"},
        Hook{"launch_of_a_kernel", "library", "launch",
             "the kernel of library 1 'faulty_ops' for op 'tripled': hook 'launch'"}),
    [](const auto& info) { return info.param.name; });

/// What a hook throws, and the exit code of every command.
struct Thrown {
  const char* name;
  std::string what;
  int exit_code;
};

void PrintTo(const Thrown& thrown, std::ostream* out) { *out << thrown.name; }

class ExitCode : public CommandsBesideSamples, public ::testing::WithParamInterface<Thrown> {
 protected:
  /// A checkpoint of a run with a sound model.
  [[nodiscard]] std::string train() const {
    EXPECT_EQ(run("train", {}).exit_code, 0);
    return (folder_.path() / "output").string();
  }
};

TEST_P(ExitCode, IsThatOfTheErrorInEveryCommand) {
  const std::string checkpoint = train();
  const std::vector<std::string> fault = ending("model", "build", GetParam().what);
  const std::vector<std::vector<std::string>> commands = {{"train", config_, "--overwrite"},
                                                          {"check", config_},
                                                          {"check", config_, "--json"},
                                                          {"explain", config_},
                                                          {"verify", config_},
                                                          {"verify", config_, "--ops"},
                                                          {"evaluate", checkpoint},
                                                          {"generate", checkpoint},
                                                          {"replay", checkpoint}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--set", fault[0], "--set", "run.steps=2"});
    const CommandResult result = test::run_command(command);
    EXPECT_EQ(result.exit_code, GetParam().exit_code) << command[0] << ": " << result.messages << result.out;
    const char* const place = GetParam().what == "option error" ? "fault: boom" : "model 'sample_model': ";
    EXPECT_THAT(result.messages + result.out, HasSubstr(place)) << command[0];
  }
}

INSTANTIATE_TEST_SUITE_P(EveryKind, ExitCode,
                         ::testing::Values(Thrown{"runtime_error", "runtime error", 1},
                                           Thrown{"verification_error", "verification error", 1},
                                           Thrown{"null_what", "null what", 1},
                                           Thrown{"configuration_error", "configuration error", 2},
                                           Thrown{"option_error", "option error", 2},
                                           Thrown{"standard_exception", "standard exception", 2},
                                           Thrown{"number", "number", 2}),
                         [](const auto& info) { return info.param.name; });

/// A hook that hangs in a command.
struct Hang {
  const char* name;
  std::string command;
  std::string plugin;
  std::string hook;
  std::string named;
};

void PrintTo(const Hang& hang, std::ostream* out) { *out << hang.name; }

class HangingHook : public CommandsBesideSamples, public ::testing::WithParamInterface<Hang> {};

TEST_P(HangingHook, IsNamedAfterTheLimit) {
  std::vector<std::string> arguments{GetParam().command, config_, "--set", "run.watchdog=0.2"};
  for (const std::string& each : ending(GetParam().plugin, GetParam().hook, "hang")) {
    arguments.insert(arguments.end(), {"--set", each});
  }
  test::RunningCommand command(arguments);
  const std::string message = GetParam().named + " has been running for ";
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (command.messages().find(message) == std::string::npos && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const CommandResult result = command.end(SIGKILL);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_THAT(result.messages, HasSubstr(message));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, HangingHook,
    ::testing::Values(Hang{"check", "check", "model", "build", "model 'sample_model': hook 'build'"},
                      Hang{"explain", "explain", "strategy", "rules", "strategy 1 'crashing': hook 'rules'"},
                      Hang{"verify", "verify", "optimizer", "update", "optimizer 'faulty_optimizer': hook 'update'"},
                      Hang{"open", "train", "dataset", "open", "dataset 'faulty_dataset': hook 'open'"},
                      Hang{"read", "train", "dataset", "read", "dataset 'faulty_dataset': hook 'read'"},
                      Hang{"launch", "train", "device", "launch", "device 'faulty_device': hook 'launch'"},
                      Hang{"wait", "train", "communicator", "wait", "communicator 'faulty_communicator': hook 'wait'"},
                      Hang{"launch_of_a_library", "train", "library", "launch",
                           "the kernel of library 1 'faulty_ops' for op 'tripled': hook 'launch'"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::host

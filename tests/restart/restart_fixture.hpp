#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "build_paths.hpp"
#include "checkpoint/checkpoint.hpp"
#include "train/command_runner.hpp"
#include "train/small_run.hpp"

namespace strata::host::test {

/// Runs of a small model on two ranks, as threads (`strata train`) or processes (`strata launch`), that are compared
/// with one that nothing disturbed.
class RestartFixture : public ::testing::Test {
 protected:
  RestartFixture() { ::setenv("STRATA_PLUGIN_PATH", build_path("tests/launch/samples").c_str(), 1); }
  ~RestartFixture() override { ::unsetenv("STRATA_PLUGIN_PATH"); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  /// Arguments of a run with its own output folder and log. `command`: train or launch.
  [[nodiscard]] std::vector<std::string> arguments(const std::string& command, const std::string& output,
                                                   const std::vector<std::string>& more = {}) const {
    const std::string communicator = command == "launch" ? "exchange" : "local";
    std::vector<std::string> all{command,      config_,
                                 "--log-json", path(output + ".log"),
                                 "--set",      ddp(2),
                                 "--set",      "run.output=" + path(output),
                                 "--set",      "communicator.plugin=" + communicator,
                                 "--set",      "device.threads=1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] std::vector<std::string> train(const std::string& output,
                                               const std::vector<std::string>& more = {}) const {
    return arguments("train", output, more);
  }

  /// A run's log without what a stop changes: times, the memory that a process used, lines for people, and checkpoints,
  /// of which a stopped run has more.
  [[nodiscard]] std::vector<std::string> log(const std::string& output) const {
    std::vector<std::string> lines;
    std::istringstream stream(read_file(path(output + ".log")));
    for (std::string line; std::getline(stream, line);) {
      nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
      if (value.is_discarded()) {
        lines.push_back(line);
        continue;
      }
      const std::string event = value.value("event", "");
      if (event == "checkpoint" || event == "warning" || event == "error") continue;
      for (const char* time : {"tokens_per_second", "model_flops_per_second", "arena_bytes", "rss_bytes",
                               "step_seconds", "wait_seconds", "data_wait_seconds", "median_tokens_per_second",
                               "median_step_seconds", "peak_rss_bytes", "arena_peak_bytes", "time"}) {
        value.erase(time);
      }
      lines.push_back(value.dump());
    }
    return lines;
  }
  /// Waits until `holds`. \throws std::runtime_error after two minutes.
  static void wait_until(const std::function<bool()>& holds, const std::string& what) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("waited in vain for " + what);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// Waits until a command has printed `text`.
  static void wait_for_messages(const RunningCommand& command, const std::string& text) {
    wait_until([&] { return command.messages().find(text) != std::string::npos; }, text);
  }
  /// Waits until the log of a run contains `text`.
  void wait_for_log(const std::string& output, const std::string& text) const {
    wait_until([&] { return read_file(path(output + ".log")).find(text) != std::string::npos; },
               text + " in the log of '" + output + "'");
  }
  /// The bytes of all tensors of the last checkpoint.
  [[nodiscard]] std::string tensors(const std::string& output) const {
    const std::filesystem::path checkpoint = find_checkpoint(path(output));
    std::string bytes;
    for (const auto& [name, file] : read_manifest(checkpoint / "manifest.json").files) {
      bytes += read_file(checkpoint / name);
    }
    return bytes;
  }
  /// The run `output` did what `expected` did: every step, every evaluation, the parameters.
  void expect_equal_runs(const std::string& output, const std::string& expected) const {
    EXPECT_EQ(log(output), log(expected));
    EXPECT_TRUE(tensors(output) == tensors(expected));
  }
  static void flip_a_byte(const std::filesystem::path& file) {
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  }

  TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", small_configuration(folder_)).string();
};

}  // namespace strata::host::test

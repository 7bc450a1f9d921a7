#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "build_paths.hpp"
#include "processes/compared_runs.hpp"
#include "processes/process_group.hpp"
#include "setup/launched_process.hpp"
#include "train/small_run.hpp"

namespace strata::host {

/// Runs of two processes that gloo joins, and the same runs in the threads of one process.
class Training : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(build_path("lib/strata/plugins/communicator_gloo.so"))) {
      GTEST_SKIP() << "the plugin is not built";
    }
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  /// Arguments of a run with a communicator: "gloo" in processes, or "local" in threads.
  [[nodiscard]] std::vector<std::string> arguments(const std::string& command, const std::string& communicator,
                                                   const std::vector<std::string>& settings) const {
    std::vector<std::string> all{command, config_, "--log-json", path(communicator + ".log")};
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    for (const std::string& setting : {"run.output=" + path(communicator), "communicator.plugin=" + communicator}) {
      all.insert(all.end(), {"--set", setting});
    }
    return all;
  }
  [[nodiscard]] std::vector<std::string> losses(const std::string& communicator) const {
    return test::losses(path(communicator + ".log"));
  }
  [[nodiscard]] std::string tensors(const std::string& communicator, int ranks) const {
    return test::tensors(path(communicator), ranks);
  }
  /// Starts one of the two processes of a run, in `folder` and with the plugins of `plugins` first, if they are given.
  static void start(testing::ProcessGroup& group, int rank, const std::string& port, std::vector<std::string> words,
                    const std::string& folder = "", const std::string& plugins = "") {
    words.insert(words.begin(), build_path("bin/strata"));
    if (!folder.empty()) words.insert(words.begin(), {"env", "--chdir=" + folder});
    group.start(words, {{"RANK", std::to_string(rank)},
                        {"WORLD_SIZE", "2"},
                        {"LOCAL_RANK", std::to_string(rank)},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", port},
                        {"STRATA_PLUGIN_PATH", plugins},
                        {"STRATA_SECRET", "a secret of this test"}});
  }
  /// The words of a run that does not end by itself.
  [[nodiscard]] std::vector<std::string> endless(double start_timeout) const {
    return arguments(
        "train", "gloo",
        {test::ddp(2), "run.steps=1000000", "communicator.start_timeout=" + std::to_string(start_timeout)});
  }

  test::TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
};

/// Settings of a run of four ranks: two processes of two threads each.
inline std::vector<std::string> two_by_two() {
  return {R"(strategy=[{plugin="ddp", size=2}, {plugin="tensor", size=2}])", "communicator.ranks_per_process=2"};
}

}  // namespace strata::host

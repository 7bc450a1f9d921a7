#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "files/console.hpp"
#include "launch/child_process.hpp"
#include "launch/host_connection.hpp"
#include "launch/rank_placement.hpp"
#include "launch/rank_processes.hpp"
#include "launch/train_arguments.hpp"
#include "loading/plugin_registry.hpp"
#include "log/training_record.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

struct LaunchArguments {
  TrainArguments train;
  std::optional<int> ranks;
  std::optional<int> ranks_per_process;
  std::optional<double> grace;
  int max_restarts = 0;
  /// Durations: before the first restart, and until hosts that cannot be reached are given up.
  std::string restart_delay = "1s";
  std::string wait_for_hosts = "0s";
  std::string log_dir;
  /// Empty: all ranks are on this machine.
  std::string hosts;
  std::string ssh = "ssh";
  std::string master_address;
  /// Plans the run anew if the hosts have other slots than it has ranks.
  bool replan = false;
};

/// A run of one process for each rank, or for several, on this machine or on several. Starts it anew from its last
/// checkpoint when a rank has failed or a host is lost.
class Launch {
 public:
  /// `setup`: of the run. All arguments outlive this object. \throws ConfigurationError for arguments that do not fit
  /// the run.
  Launch(const LaunchArguments& arguments, const RunSetup& setup, PluginRegistry& plugins, Console& console);

  /// \return the exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  /// How a run of all ranks ended.
  struct RunEnd {
    int code = 0;
    /// What failed, or empty.
    std::string report;
    bool asked_to_stop = false;
    bool has_lost_hosts = false;
  };

  void check_arguments() const;
  /// `restarts`: how often the run was started before.
  [[nodiscard]] RunEnd run_once(int restarts);
  [[nodiscard]] RunEnd run_here(const std::vector<std::string>& words, int restarts);
  [[nodiscard]] RunEnd run_on_hosts(TrainArguments train, int restarts);
  /// Connects with all hosts, and tries again for wait_for_hosts_ if some cannot be reached. \return nothing if a
  /// signal asks to stop meanwhile.
  [[nodiscard]] std::optional<HostConnections> connect();
  /// \return false if a signal asks to stop meanwhile.
  [[nodiscard]] bool pause(std::chrono::seconds delay) const;
  /// The number of ranks that `slots` allow. If they are fewer than all, `train` gets the axis's size, or with
  /// LaunchArguments::replan the configuration of a new plan. \throws RuntimeError if no number fits.
  [[nodiscard]] int fit_ranks(int slots, TrainArguments& train);
  /// The hosts that can be reached. \throws RuntimeError if one cannot at the first start.
  [[nodiscard]] HostConnections reachable(HostConnections connections, bool is_restart);
  [[nodiscard]] static RunEnd judge(const std::vector<ProcessEnd>& ends, const std::vector<std::string>& lost_hosts,
                                    bool asked_to_stop);
  void print(const RankLine& line, const std::string& host);
  /// Adds what people saw to the run's log, which no rank has open between two starts.
  void record(const LogMessage& message) const;
  /// The arguments of a later start: the run continues, and run.stop_after counts from the first start.
  [[nodiscard]] TrainArguments restart_arguments() const;
  /// Waits until ranks of a lost host no longer write to the output folder.
  void wait_for_output() const;
  [[nodiscard]] std::filesystem::path logs() const;

  const LaunchArguments& arguments_;
  const RunSetup& setup_;
  const RunSection& run_;
  int ranks_;
  int ranks_per_process_;
  PluginRegistry& plugins_;
  Console& console_;
  std::vector<HostSlots> hosts_;
  std::string identity_before_;
  Grace grace_;
  std::chrono::seconds restart_delay_;
  std::chrono::seconds wait_for_hosts_;
  SignalQueue signals_;
  /// Messages of ranks that were printed in this start.
  std::set<std::string> said_;
  Clock::time_point begin_ = Clock::now();
  /// When the ranks of the present start began to run.
  std::optional<Clock::time_point> ranks_began_;
};

}  // namespace strata::host

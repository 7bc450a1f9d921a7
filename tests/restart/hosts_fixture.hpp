#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "build_paths.hpp"
#include "restart_fixture.hpp"

namespace strata::host::test {

/// How the launcher reaches its hosts.
struct Access {
  std::string hosts = "node1:2,node2:2";
  /// Empty: the fixture's script.
  std::string ssh = {};
};

/// Runs of four ranks on two hosts, "node1" and "node2", that gloo joins. Both are this machine: a script stands for
/// ssh. It starts the command in another folder and greets before it, as shells of users do.
class HostsFixture : public RestartFixture {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(build_path("lib/strata/plugins/communicator_gloo.so"))) {
      GTEST_SKIP() << "the plugin gloo is not built";
    }
    static_cast<void>(folder_.file("ssh.sh", R"(folder=$(dirname "$0")
if [ -e "$folder/gone-$1" ]; then
  echo "ssh: connect to host $1 port 22: No route to host" >&2
  exit 255
fi
echo $$ >"$folder/agent-$1"
cd /
echo "Welcome to $1"
exec sh -c "$2"
)"));
  }

  /// `output` is the name of the run's folder and log.
  [[nodiscard]] std::vector<std::string> on_hosts(const std::string& output, const std::vector<std::string>& more = {},
                                                  const Access& access = {}) const {
    const std::string ssh = access.ssh.empty() ? "sh " + path("ssh.sh") : access.ssh;
    std::vector<std::string> all = whole_run("launch", output, "gloo");
    all.insert(all.end(), {"--hosts", access.hosts, "--ssh", ssh, "--master-address", "127.0.0.1", "--resume", "auto"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] std::vector<std::string> whole_run(const std::string& command, const std::string& output,
                                                   const std::string& communicator) const {
    return arguments(command, output,
                     {"--set", ddp(4), "--set", "run.steps=40", "--set", "run.checkpoint_every=5", "--set",
                      "communicator.plugin=" + communicator});
  }
  /// The run that nothing disturbs, in threads.
  void run_whole() const {
    const CommandResult result = run_command(whole_run("train", "whole", "local"));
    ASSERT_EQ(result.exit_code, 0) << result.messages;
  }
  void remove_host(const std::string& host) const { static_cast<void>(folder_.file("gone-" + host, "")); }
  void return_host(const std::string& host) const { std::filesystem::remove(path("gone-" + host)); }
  [[nodiscard]] pid_t agent(const std::string& host) const { return std::stoi(read_file(path("agent-" + host))); }
  /// The processes that `parent` has started.
  [[nodiscard]] static std::vector<pid_t> children_of(pid_t parent) {
    const std::string id = std::to_string(parent);
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    return {std::istream_iterator<pid_t>(children), {}};
  }
  [[nodiscard]] std::string rank_log(const std::string& output, int rank) const {
    return read_file(path(output) + "/ranks/rank-0000" + std::to_string(rank) + ".log");
  }
};

}  // namespace strata::host::test

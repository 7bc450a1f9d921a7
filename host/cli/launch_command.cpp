#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "cli/commands.hpp"
#include "cli/exit_codes.hpp"
#include "cli/rank_processes.hpp"
#include "cli/train_arguments.hpp"
#include "train/run/launched_process.hpp"
#include "train/run/run_setup.hpp"

namespace strata::host {
namespace {

struct LaunchArguments {
  TrainArguments train;
  std::optional<int> ranks;
};

/// A port of this machine on which no process listens.
int free_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool found = socket >= 0 && ::bind(socket, generic, size) == 0 && ::getsockname(socket, generic, &size) == 0;
  const std::string cause = std::strerror(errno);
  if (socket >= 0) ::close(socket);
  if (!found) throw RuntimeError("no free port was found for the rendezvous of the ranks: " + cause);
  return ntohs(address.sin_port);
}

/// A random secret of 64 hexadecimal digits.
std::string random_secret() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw RuntimeError(std::string("no random numbers for the ranks' secret: ") + std::strerror(errno));
  }
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned byte : bytes) text += {kDigits[byte >> 4U], kDigits[byte & 15U]};
  return text;
}

std::vector<ProcessRequest> rank_requests(const LaunchArguments& arguments, int ranks) {
  const std::string count = std::to_string(ranks);
  const std::string port = std::to_string(free_port());
  const std::string secret = random_secret();
  std::vector<ProcessRequest> requests;
  for (int rank = 0; rank < ranks; ++rank) {
    ProcessRequest request;
    request.words = {std::filesystem::read_symlink("/proc/self/exe").string(), "train"};
    const std::vector<std::string> more = arguments.train.words();
    request.words.insert(request.words.end(), more.begin(), more.end());
    if (rank > 0) request.words.insert(request.words.end(), {"--log-level", "warning"});
    request.environment = {
        {"RANK", std::to_string(rank)}, {"WORLD_SIZE", count},        {"LOCAL_RANK", std::to_string(rank)},
        {"LOCAL_WORLD_SIZE", count},    {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port},
        {"STRATA_PORT", port},          {"STRATA_SECRET", secret},    {kLaunchedRanks, count}};
    requests.push_back(std::move(request));
  }
  return requests;
}

int launch(const LaunchArguments& arguments, CommandContext& context) {
  // Check the configuration before any rank starts, so that mistakes are reported once.
  const RunSetup setup = prepare(arguments.train.load(), context.plugins());
  const int ranks = setup.stack.mesh.rank_count();
  if (arguments.ranks && *arguments.ranks != ranks) {
    throw ConfigurationError("--ranks: found " + std::to_string(*arguments.ranks) + "; accepted: " +
                             std::to_string(ranks) + ", as many as the configuration's strategies make");
  }
  std::set<std::string> said;
  RankProcesses processes(rank_requests(arguments, ranks), [&](int rank, const std::string& line) {
    // Ranks often print the same message. Print it once.
    if (said.insert(line).second) context.messages << "[rank " << rank << "] " << line << std::endl;
  });
  int code = 0;
  std::string report;
  for (const ProcessEnd& end : processes.wait()) {
    if (!end.failed()) continue;
    if (code == 0) code = end.exit_code == kRefused ? kRefused : kFailed;
    report += (report.empty() ? "" : ", then ") + describe(end);
  }
  if (code != 0) context.messages << "error: " << report << '\n';
  return code;
}

}  // namespace

void add_launch_command(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<LaunchArguments>();
  CLI::App* command = app.add_subcommand("launch", "Train with one process per rank, all on this machine");
  arguments->train.add_to(*command);
  command->add_option("--ranks", arguments->ranks, "Number of ranks that the configuration must have")
      ->check(CLI::PositiveNumber);
  command->callback(
      [arguments, &context] { context.action = [arguments, &context] { return launch(*arguments, context); }; });
}

}  // namespace strata::host

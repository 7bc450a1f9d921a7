#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "cli/closed_output.hpp"
#include "cli/commands.hpp"
#include "cli/exit_codes.hpp"
#include "cli/train_arguments.hpp"
#include "config/duration.hpp"
#include "launch/rank_processes.hpp"
#include "train/run/launched_process.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_setup.hpp"

namespace strata::host {
namespace {

struct LaunchArguments {
  TrainArguments train;
  std::optional<int> ranks;
  std::optional<double> grace;
  int max_restarts = 0;
  std::string log_dir;
};

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

/// `words`: the arguments of `strata train`.
std::vector<ProcessRequest> rank_requests(const std::vector<std::string>& words, int ranks) {
  const std::string count = std::to_string(ranks);
  const std::string port = free_port();
  const std::string secret = random_secret();
  std::vector<ProcessRequest> requests;
  for (int rank = 0; rank < ranks; ++rank) {
    ProcessRequest request;
    request.rank = rank;
    request.words = {std::filesystem::read_symlink("/proc/self/exe").string(), "train"};
    request.words.insert(request.words.end(), words.begin(), words.end());
    if (rank > 0) request.words.insert(request.words.end(), {"--log-level", "warning"});
    request.environment = {
        {"RANK", std::to_string(rank)}, {"WORLD_SIZE", count},        {"LOCAL_RANK", std::to_string(rank)},
        {"LOCAL_WORLD_SIZE", count},    {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port},
        {"STRATA_PORT", port},          {"STRATA_SECRET", secret},    {kLaunchedRanks, count}};
    requests.push_back(std::move(request));
  }
  return requests;
}

/// How a run of all ranks ended.
struct RunEnd {
  int code = 0;
  /// What failed, or empty.
  std::string report;
  bool asked_to_stop = false;
};

/// Starts a run anew from its last checkpoint when a rank has failed.
class Launch {
 public:
  Launch(const LaunchArguments& arguments, const RunConfiguration& configuration, int ranks, CommandContext& context)
      : arguments_(arguments),
        run_(configuration.run),
        ranks_(ranks),
        context_(context),
        identity_before_(stored_identity(run_.output)) {
    if (arguments.grace) {
      const Grace::Seconds grace(*arguments.grace);
      grace_ = {grace, grace, grace};
    }
    if (arguments.max_restarts > 0 && !run_.resume.empty() && run_.resume != kResumeAuto) {
      throw configuration.error("run.resume", "found \"" + run_.resume +
                                                  "\", to which a restart would return; accepted with --max-restarts: "
                                                  "\"auto\", or nothing for a new run");
    }
  }

  int run() {
    for (int restarts = 0;; ++restarts) {
      const RunEnd end = run_once(restarts == 0 ? arguments_.train.words() : restart_words());
      if (!end.report.empty()) context_.messages << "error: " << end.report << std::endl;
      if (end.code != kFailed || end.asked_to_stop || restarts == arguments_.max_restarts) return end.code;
      context_.log.warning("starting the run again (" + std::to_string(restarts + 1) + " of " +
                           std::to_string(arguments_.max_restarts) + ")");
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] RunEnd run_once(const std::vector<std::string>& words) const {
    std::set<std::string> said;
    const auto print = [&](const RankLine& line) {
      if (line.rank == 0 && !line.is_error) {
        context_.out << line.text << '\n';
        flush_results(context_);
      } else if (line.rank == 0) {
        context_.messages << line.text << std::endl;
      } else if (said.insert(line.text).second) {
        // Ranks often print the same message. Print it once.
        context_.messages << "[rank " << line.rank << "] " << line.text << std::endl;
      }
    };
    RankProcesses processes(rank_requests(words, ranks_), grace_, signals_,
                            {print, [this](const std::string& text) { context_.log.warning(text); }, logs()});
    RunEnd result;
    bool stopped = false;
    for (const ProcessEnd& end : processes.wait()) {
      stopped = stopped || end.stopped();
      if (!end.failed()) continue;
      if (result.code == 0) result.code = end.exit_code == kRefused ? kRefused : kFailed;
      result.report += (result.report.empty() ? "" : ", then ") + describe(end);
    }
    if (result.code == 0 && stopped) result.code = kStopped;
    result.asked_to_stop = processes.asked_to_stop();
    return result;
  }

  /// The arguments of a later start: the run continues, and run.stop_after counts from the first start.
  [[nodiscard]] std::vector<std::string> restart_words() const {
    TrainArguments later = arguments_.train;
    // A run that failed before it removed the old checkpoints still has to.
    later.overwrite = later.overwrite && stored_identity(run_.output) == identity_before_;
    if (!later.overwrite) later.resume = kResumeAuto;
    if (const auto limit = parse_duration(run_.stop_after)) {
      const auto left = *limit - std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin_);
      later.stop_after = std::to_string(std::max<std::int64_t>(left.count(), 0)) + "s";
    }
    return later.words();
  }

  /// The folder of the files of ranks.
  [[nodiscard]] std::filesystem::path logs() const {
    if (!arguments_.log_dir.empty()) return arguments_.log_dir;
    return std::filesystem::path(run_.output) / "ranks";
  }

  const LaunchArguments& arguments_;
  SignalQueue signals_;
  RunSection run_;
  int ranks_;
  CommandContext& context_;
  std::string identity_before_;
  Grace grace_;
  Clock::time_point begin_ = Clock::now();
};

int launch(const LaunchArguments& arguments, CommandContext& context) {
  // Check the configuration before any rank starts, so that mistakes are reported once.
  const RunSetup setup = prepare(arguments.train.load(), context.plugins());
  const int ranks = setup.stack.mesh.rank_count();
  if (arguments.ranks && *arguments.ranks != ranks) {
    throw ConfigurationError("--ranks: found " + std::to_string(*arguments.ranks) + "; accepted: " +
                             std::to_string(ranks) + ", as many as the configuration's strategies make");
  }
  return Launch(arguments, setup.configuration, ranks, context).run();
}

}  // namespace

void add_launch_command(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<LaunchArguments>();
  CLI::App* command = app.add_subcommand("launch", "Train with one process per rank, all on this machine");
  arguments->train.add_to(*command);
  command->add_option("--ranks", arguments->ranks, "Number of ranks that the configuration must have")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--grace", arguments->grace,
                   "Time in seconds that ranks get to end before they are killed: after a signal (default: no limit), "
                   "after a rank failed (10) or ended (300)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("SECONDS");
  command
      ->add_option("--max-restarts", arguments->max_restarts,
                   "How often to start the run again from its last checkpoint when a rank fails")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--log-dir", arguments->log_dir,
                   "Folder of the files rank-00000.log, ... with what each rank writes, over all starts of the run "
                   "(default: ranks in run.output)")
      ->type_name("DIR");
  command->callback(
      [arguments, &context] { context.action = [arguments, &context] { return launch(*arguments, context); }; });
}

}  // namespace strata::host

#include "launch/launch.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "cluster/cluster_file.hpp"
#include "files/exit_codes.hpp"
#include "files/file_io.hpp"
#include "files/text_format.hpp"
#include "launch/restart_budget.hpp"
#include "log/run_log.hpp"
#include "plan/find_plans.hpp"
#include "plan/plan_report.hpp"
#include "setup/launched_process.hpp"
#include "strata/tensor.hpp"
#include "train/inspection.hpp"
#include "train/run_folder.hpp"

namespace strata::host {
namespace {

/// How long ranks of a lost host may take to end before the run starts without them.
constexpr std::chrono::seconds kOutputLimit{60};

std::string describe_placement(const std::vector<HostSlots>& hosts, const std::vector<int>& counts) {
  std::string text;
  int rank = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (counts[i] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", hosts[i].name, rank);
    if (counts[i] > 1) text += fmt::format("-{}", rank + counts[i] - 1);
    rank += counts[i];
  }
  return fmt::format("{} rank(s): {}", rank, text);
}

std::chrono::seconds duration_of(const std::string& option, const std::string& text) {
  if (const auto duration = parse_duration(text)) return *duration;
  throw ConfigurationError(option + ": found '" + text + "'; accepted: " + kDurations);
}

/// The processes of each host, which also get to know how often the run was started again.
std::vector<std::vector<ProcessRequest>> requests_of_start(const std::vector<std::string>& words,
                                                           const Placement& placement, const Meeting& meeting,
                                                           int restarts) {
  std::vector<std::vector<ProcessRequest>> requests = rank_requests(words, placement, meeting);
  for (std::vector<ProcessRequest>& host : requests) {
    for (ProcessRequest& each : host) each.environment[kRestarts] = std::to_string(restarts);
  }
  return requests;
}

std::vector<std::string> failures_of(const HostConnections& connections) {
  std::vector<std::string> failures;
  for (const auto& each : connections) {
    if (each->failure()) failures.push_back(*each->failure());
  }
  return failures;
}

/// The run's cluster with at least `devices`.
Cluster cluster_of(const RunConfiguration& configuration, int devices) {
  if (configuration.cluster.table == nullptr) {
    throw ConfigurationError(
        "--replan: the configuration has no [cluster]; accepted: a table [cluster], which describes the hosts");
  }
  Cluster cluster = read_cluster(*configuration.cluster.table, {});
  if (devices <= cluster.devices()) return cluster;
  const int each = cluster.groups.front().devices;
  if (cluster.groups.size() == 1) {
    cluster = read_cluster(*configuration.cluster.table, {.nodes = (devices + each - 1) / each});
  }
  return cluster;
}

/// The best plan for other machines than a run was made for.
struct Replanned {
  int ranks = 0;
  /// Its configuration: replanned.toml in the run's output folder, which the hosts share.
  std::string file;
  /// The plan in words.
  std::string plan;
};

/// Plans the run for `slots` devices of its cluster, or for fewer if no plan can use as many. If they are more than a
/// cluster of equal nodes has, it gets more nodes. Batch, seed and data stay, so the run goes on from its checkpoints.
/// \throws ConfigurationError if the run has no cluster. \throws RuntimeError if there is no plan.
Replanned replan(const RunSetup& setup, int slots, PluginRegistry& registry) {
  RunConfiguration configuration = setup.configuration;
  configuration.run.resume = kResumeAuto;
  const InspectionTarget target{.cluster = cluster_of(configuration, slots)};
  for (int devices = slots;; devices = fewer_devices(devices)) {
    DevicePlans found = find_plans(configuration, target, {.devices = devices}, {}, registry);
    if (!found.is_possible() && devices > 1) continue;
    const std::optional<RunConfiguration> chosen = check_first(found, target, registry);
    if (!chosen) throw RuntimeError(describe_nearest_miss(*found.space, found.plans));
    const PlanChoice& best = found.plans.front().choice;
    const std::filesystem::path folder = configuration.run.output;
    std::filesystem::create_directories(folder);
    const std::filesystem::path file = std::filesystem::absolute(folder / "replanned.toml");
    write_named_file(file.string(), to_toml(*chosen));
    return {devices, file.string(), found.space->text(best)};
  }
}

}  // namespace

Launch::Launch(const LaunchArguments& arguments, const RunSetup& setup, PluginRegistry& plugins, Console& console)
    : arguments_(arguments),
      setup_(setup),
      run_(setup.configuration.run),
      ranks_(setup.stack.mesh.rank_count()),
      ranks_per_process_(ranks_per_process(setup)),
      plugins_(plugins),
      console_(console),
      identity_before_(stored_identity(run_.output)),
      restart_delay_(duration_of("--restart-delay", arguments.restart_delay)),
      wait_for_hosts_(duration_of("--wait-for-hosts", arguments.wait_for_hosts)) {
  if (!arguments.hosts.empty()) hosts_ = for_processes(read_hosts(arguments.hosts), ranks_per_process_);
  if (arguments.grace) {
    const Grace::Seconds grace(*arguments.grace);
    grace_ = {grace, grace, grace};
  }
  check_arguments();
}

void Launch::check_arguments() const {
  if (arguments_.ranks && *arguments_.ranks != ranks_) {
    throw ConfigurationError(fmt::format(
        "--ranks: found {}; accepted: {}, as many as the configuration's strategies make", *arguments_.ranks, ranks_));
  }
  if (arguments_.max_restarts > 0 && !run_.resume.empty() && run_.resume != kResumeAuto) {
    throw setup_.configuration.error("run.resume",
                                     fmt::format("found \"{}\", to which a restart would return; accepted with "
                                                 "--max-restarts: \"auto\", or nothing for a new run",
                                                 run_.resume));
  }
  if (!hosts_.empty() && total_slots(hosts_) < ranks_ && !arguments_.replan) {
    const std::string use =
        ranks_per_process_ == 1 ? "" : fmt::format(" for processes of {} ranks", ranks_per_process_);
    throw ConfigurationError(
        fmt::format("--hosts: found {} slots{}; accepted: at least {}, one for each rank of the configuration",
                    total_slots(hosts_), use, ranks_));
  }
}

int Launch::run() {
  RestartBudget budget(arguments_.max_restarts, restart_delay_);
  for (int restarts = 0;; ++restarts) {
    ranks_began_.reset();
    const RunEnd end = run_once(restarts);
    if (!end.report.empty()) print_error(console_.messages, end.report);
    // A run that was refused leaves no record.
    if (!end.report.empty() && end.code != kRefused) record({true, end.report});
    if (end.code != kFailed || end.asked_to_stop) return end.code;
    const auto delay = budget.take(ranks_began_ ? Clock::now() - *ranks_began_ : Clock::duration::zero());
    if (!delay) return end.code;
    if (end.has_lost_hosts) wait_for_output();
    const std::string plan = fmt::format("starting the run again ({} of {}) in {} s", budget.used(),
                                         arguments_.max_restarts, delay->count());
    console_.log.warning(plan);
    record({false, plan});
    if (pause(*delay)) continue;
    console_.log.info("stopped on request between two starts; run the same command again");
    return kStopped;
  }
}

bool Launch::pause(std::chrono::seconds delay) const {
  const Clock::time_point end = Clock::now() + delay;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return true;
    pollfd wanted{signals_.descriptor(), POLLIN, 0};
    ::poll(&wanted, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (!signals_.take().empty()) return false;
  }
}

Launch::RunEnd Launch::run_once(int restarts) {
  said_.clear();
  const TrainArguments train = restarts == 0 ? arguments_.train : restart_arguments();
  try {
    return hosts_.empty() ? run_here(train.words(), restarts) : run_on_hosts(train, restarts);
  } catch (const RuntimeError& error) {
    // What hinders a restart, such as a host that is away, may be over at the next one.
    if (restarts == 0) throw;
    return {kFailed, error.what(), false, false};
  }
}

Launch::RunEnd Launch::run_here(const std::vector<std::string>& words, int restarts) {
  const Meeting meeting{"127.0.0.1", free_port(), random_secret()};
  RankProcesses processes(requests_of_start(words, {{ranks_}, ranks_per_process_}, meeting, restarts).front(), grace_,
                          signals_,
                          {[this](const RankLine& line) { print(line, ""); },
                           [this](const std::string& text) { console_.log.warning(text); }, logs()});
  ranks_began_ = Clock::now();
  const std::vector<ProcessEnd> ends = processes.wait();
  return judge(ends, {}, processes.asked_to_stop());
}

std::optional<HostConnections> Launch::connect() {
  const HostAccess access{arguments_.ssh, std::filesystem::current_path().string(),
                          arguments_.train.configuration.file};
  const auto note = [this](const std::string& text) { console_.messages << message_text(text) << std::endl; };
  const Clock::time_point limit = Clock::now() + wait_for_hosts_;
  BackOff back_off(std::chrono::seconds(1));
  while (true) {
    auto connections = connect_hosts(hosts_, access, signals_, note);
    if (!connections) return std::nullopt;
    const std::vector<std::string> failures = failures_of(*connections);
    const auto left = std::chrono::floor<std::chrono::seconds>(limit - Clock::now());
    if (failures.empty() || left.count() <= 0) return connections;
    console_.log.warning(fmt::format("{}; waiting for up to {} s more", fmt::join(failures, "; "), left.count()));
    connections->clear();
    if (!pause(std::min(back_off.next(), left))) return std::nullopt;
  }
}

Launch::RunEnd Launch::run_on_hosts(TrainArguments train, int restarts) {
  const auto warn = [this](const std::string& text) { console_.log.warning(text); };
  auto connected = connect();
  if (!connected) {
    console_.log.info("stopped on request before training began; run the same command again");
    return {kStopped, "", true, false};
  }
  HostConnections connections = reachable(std::move(*connected), restarts > 0);
  std::vector<HostSlots> hosts;
  for (const auto& each : connections) hosts.push_back(each->slots());
  const int ranks = fit_ranks(total_slots(hosts), train);
  const std::vector<int> counts = place_ranks(hosts, ranks);
  const Meeting meeting{meeting_address(hosts, counts, hosts_.front().name, arguments_.master_address),
                        connections.front()->port(), random_secret()};
  std::vector<std::vector<ProcessRequest>> requests =
      requests_of_start(train.words(), {counts, ranks_per_process_}, meeting, restarts);
  for (std::vector<ProcessRequest>& each : requests) add_own_variables(each);
  console_.log.info(describe_placement(hosts, counts));
  HostProcesses processes(
      connections, requests, logs().string(), grace_, signals_,
      [this](const RankLine& line, const std::string& host) { print(line, host); }, warn);
  ranks_began_ = Clock::now();
  const std::vector<ProcessEnd> ends = processes.wait();
  return judge(ends, processes.lost_hosts(), processes.asked_to_stop());
}

int Launch::fit_ranks(int slots, TrainArguments& train) {
  if (arguments_.replan && slots != ranks_) {
    const Replanned next = replan(setup_, slots, plugins_);
    console_.log.warning(fmt::format("the hosts have {} slots, and the run has {} ranks; it goes on with the plan {}",
                                     slots, ranks_, next.plan));
    train.configuration = {next.file, {}};
    return next.ranks;
  }
  if (slots >= ranks_) return ranks_;
  const std::string lack =
      fmt::format("the hosts that can be reached have {} slots, and the run has {} ranks", slots, ranks_);
  const ShrinkSection& shrink = run_.shrink;
  if (shrink.axis.empty()) throw RuntimeError(lack + "; [run] shrink = { axis = \"dp\" } would let it run on fewer");
  const auto shrunk = find_shrunk_axis(setup_, slots, plugins_);
  if (!shrunk) {
    throw RuntimeError(fmt::format("{}; no size of the axis \"{}\" from {} on fits them and the batch", lack,
                                   shrink.axis, shrink.min));
  }
  console_.log.warning(fmt::format("{}; it goes on with {} ranks, {} along the axis \"{}\"", lack, shrunk->ranks,
                                   shrunk->size, shrink.axis));
  train.configuration.overrides.push_back(shrunk->override);
  return shrunk->ranks;
}

HostConnections Launch::reachable(HostConnections connections, bool is_restart) {
  const std::vector<std::string> failures = failures_of(connections);
  HostConnections ready;
  for (auto& each : connections) {
    if (!each->failure()) ready.push_back(std::move(each));
  }
  if (!failures.empty() && (!is_restart || ready.empty())) throw RuntimeError(join(failures, "; "));
  for (const std::string& failure : failures) console_.log.warning(failure);
  return ready;
}

Launch::RunEnd Launch::judge(const std::vector<ProcessEnd>& ends, const std::vector<std::string>& lost_hosts,
                             bool asked_to_stop) {
  RunEnd result;
  result.asked_to_stop = asked_to_stop;
  result.has_lost_hosts = !lost_hosts.empty();
  std::vector<std::string> reports = lost_hosts;
  bool stopped = false;
  if (result.has_lost_hosts) result.code = kFailed;
  for (const ProcessEnd& end : ends) {
    stopped = stopped || end.stopped();
    if (!end.failed()) continue;
    if (result.code == 0) result.code = end.exit_code == kRefused ? kRefused : kFailed;
    reports.push_back(describe(end));
  }
  if (result.code == 0 && stopped) result.code = kStopped;
  result.report = join(reports, ", then ");
  return result;
}

void Launch::print(const RankLine& line, const std::string& host) {
  if (line.rank == 0 && !line.is_error) {
    console_.out << line.text << '\n';
    console_.flush_results();
  } else if (line.rank == 0) {
    console_.messages << message_text(line.text) << std::endl;
  } else if (said_.insert(line.text).second) {
    // Ranks often print the same message. Print it once.
    console_.messages << "[" << describe_ranks(line.rank, ranks_per_process_) << (host.empty() ? "" : " on " + host)
                      << "] " << message_text(line.text) << std::endl;
  }
}

void Launch::record(const LogMessage& message) const {
  const std::string& path = arguments_.train.log_json;
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored)) return;
  try {
    TrainingLog(path).message(message);
  } catch (const Error&) {
    // A rank of a lost host may still have it open. People have seen the line.
  }
}

TrainArguments Launch::restart_arguments() const {
  TrainArguments later = arguments_.train;
  // A run that failed before it removed the old checkpoints still has to.
  later.overwrite = later.overwrite && stored_identity(run_.output) == identity_before_;
  if (!later.overwrite) later.resume = kResumeAuto;
  if (const auto limit = parse_duration(run_.stop_after)) {
    const auto left = *limit - std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin_);
    later.stop_after = std::to_string(std::max<std::int64_t>(left.count(), 0)) + "s";
  }
  return later;
}

void Launch::wait_for_output() const {
  const std::filesystem::path lock = std::filesystem::path(run_.output) / ".lock";
  const auto limit = Clock::now() + kOutputLimit;
  std::error_code ignored;
  while (std::filesystem::exists(lock, ignored) && Clock::now() < limit) {
    try {
      const FileLock free(lock, "in use");
      return;
    } catch (const RuntimeError&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

std::filesystem::path Launch::logs() const {
  if (!arguments_.log_dir.empty()) return arguments_.log_dir;
  return std::filesystem::path(run_.output) / "ranks";
}

}  // namespace strata::host

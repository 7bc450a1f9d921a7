#include "launch/rank_processes.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <utility>

namespace strata::host {
namespace {

/// How often a companion is served at least.
constexpr int kCompanionMilliseconds = 1000;

std::string current_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::string file_name(int rank) { return fmt::format("rank-{:05}.log", rank); }

}  // namespace

RankLog::RankLog(const std::filesystem::path& folder, int rank, Warn warn)
    : file_(folder / file_name(rank), "the output of a rank, '" + (folder / file_name(rank)).string() + "'", false),
      warn_(std::move(warn)) {
  std::error_code reported_by_open;
  std::filesystem::create_directories(folder, reported_by_open);
  if (!file_.open()) warn_once();
}

void RankLog::line(const std::string& text) {
  const std::string gap =
      lost_lines_ > 0 ? fmt::format("=== {} line(s) could not be written\n", lost_lines_) : std::string();
  if (file_.append(gap + text + "\n")) {
    lost_lines_ = 0;
    return;
  }
  ++lost_lines_;
  warn_once();
}

void RankLog::mark(const std::string& text) { line("=== " + current_time() + " " + text); }

void RankLog::warn_once() {
  if (has_warned_) return;
  has_warned_ = true;
  warn_(*file_.failure() + "; the run goes on, and the file misses lines");
}

std::int64_t out_of_memory_kills(const std::filesystem::path& statistics) {
  std::ifstream file(statistics);
  std::string name;
  std::int64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

std::string describe_ranks(int first, int count) {
  if (count == 1) return fmt::format("rank {}", first);
  return fmt::format("ranks {} {} {}", first, count == 2 ? "and" : "to", first + count - 1);
}

std::string describe(const ProcessEnd& end) {
  const std::string rank = (end.ranks == 1 ? "" : "the process of ") + describe_ranks(end.rank, end.ranks) +
                           (end.host.empty() ? "" : " on " + end.host);
  if (end.by_force) return rank + " did not end in time and was ended by force";
  if (end.signal == 0) return fmt::format("{} ended with exit code {}", rank, end.exit_code);
  return fmt::format("{} was ended by signal {} ({}){}", rank, end.signal, ::strsignal(end.signal),
                     end.out_of_memory ? ", when the kernel ended a process because memory ran out" : "");
}

void sort_by_cause(std::vector<ProcessEnd>& ends) {
  const auto place = [](const ProcessEnd& end) { return end.by_force ? 2 : end.signal != 0 ? 0 : 1; };
  std::ranges::stable_sort(ends, [&](const ProcessEnd& a, const ProcessEnd& b) { return place(a) < place(b); });
}

void EndDeadline::note_request() {
  asked_to_stop_ = true;
  if (grace_.after_signal) end_within(*grace_.after_signal);
  if (requests_.note() >= SignalCount::kLimit) end_within(Grace::Seconds(0));
}

void EndDeadline::end_within(Grace::Seconds grace) {
  deadline_ = std::min(deadline_, Clock::now() + std::chrono::duration_cast<Clock::duration>(grace));
}

bool EndDeadline::strikes() {
  if (has_struck_ || Clock::now() < deadline_) return false;
  has_struck_ = true;
  return true;
}

int EndDeadline::milliseconds_left() const {
  if (has_struck_ || deadline_ == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

RankProcesses::RankProcesses(const std::vector<ProcessRequest>& requests, const Grace& grace,
                             const SignalQueue& signals, RankOutput output)
    : RankProcesses(grace, signals, std::move(output)) {
  for (const ProcessRequest& request : requests) start(request);
}

RankProcesses::RankProcesses(const Grace& grace, const SignalQueue& signals, RankOutput output)
    : signals_(signals), output_(std::move(output)), deadline_(grace) {}

RankProcesses::~RankProcesses() {
  send(SIGKILL);
  for (const auto& process : processes_) {
    if (process->running) ::waitpid(process->id, nullptr, 0);
  }
}

void RankProcesses::start(const ProcessRequest& request) {
  auto process = std::make_unique<Process>();
  process->rank = request.rank;
  process->ranks = request.ranks;
  // It is opened before the process starts, so that the process's time does not pass while the folder is made.
  if (!output_.logs.empty()) process->log = std::make_unique<RankLog>(output_.logs, request.rank, output_.warn);
  ChildProcess child =
      start_child({.words = request.words, .environment = request.environment, .signal_at_parents_death = SIGTERM},
                  signals_.previous_mask());
  process->id = child.id;
  if (process->log) {
    process->log->mark(describe_ranks(request.rank, request.ranks) + (request.ranks == 1 ? " starts" : " start") +
                       ", process " + std::to_string(child.id));
  }
  const auto add_reader = [&](Descriptor pipe, bool is_error) {
    process->readers.emplace_back(
        std::move(pipe), [this, log = process->log.get(), rank = request.rank, is_error](const std::string& text) {
          if (log != nullptr) log->line(text);
          output_.line({rank, is_error, text});
        });
  };
  add_reader(std::move(child.output), false);
  add_reader(std::move(child.errors), true);
  processes_.push_back(std::move(process));
}

std::vector<ProcessEnd> RankProcesses::wait(const Companion* companion) {
  while (any_running()) {
    wait_for_events(companion);
    read_lines();
    for (const int signal : signals_.take()) stop(signal);
    if (companion != nullptr) companion->attend();
    collect(companion);
    if (deadline_.strikes()) send(SIGKILL);
  }
  sort_by_cause(ends_);
  return ends_;
}

void RankProcesses::wait_for_events(const Companion* companion) const {
  std::vector<pollfd> wanted{{signals_.descriptor(), POLLIN, 0}};
  for (const auto& process : processes_) {
    for (const LineReader& reader : process->readers) wanted.push_back({reader.descriptor(), POLLIN, 0});
  }
  int limit = deadline_.milliseconds_left();
  if (companion != nullptr) {
    companion->add_wanted(wanted);
    limit = limit < 0 ? kCompanionMilliseconds : std::min(limit, kCompanionMilliseconds);
  }
  ::poll(wanted.data(), wanted.size(), limit);
}

void RankProcesses::stop(int signal) {
  send(signal);
  deadline_.note_request();
}

void RankProcesses::read_lines() {
  for (const auto& process : processes_) {
    for (LineReader& reader : process->readers) reader.read();
  }
}

void RankProcesses::collect(const Companion* companion) {
  for (const auto& process : processes_) {
    int status = 0;
    if (!process->running || ::waitpid(process->id, &status, WNOHANG) != process->id) continue;
    process->running = false;
    ProcessEnd end{process->rank, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                   WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                   deadline_.has_struck() && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL};
    end.ranks = process->ranks;
    end.out_of_memory = end.signal == SIGKILL && !end.by_force && out_of_memory_kills() > kills_before_;
    // What the process wrote last comes before its end.
    for (LineReader& reader : process->readers) reader.read();
    if (process->log) process->log->mark(describe(end));
    ends_.push_back(end);
    deadline_.note_end(end);
    if (companion != nullptr) companion->note_end(end);
  }
}

void RankProcesses::send(int signal) const {
  for (const auto& process : processes_) {
    if (process->running) ::kill(process->id, signal);
  }
}

bool RankProcesses::any_running() const {
  return std::ranges::any_of(processes_, [](const auto& process) { return process->running; });
}

}  // namespace strata::host

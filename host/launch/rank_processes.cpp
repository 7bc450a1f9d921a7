#include "launch/rank_processes.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "launch/child_process.hpp"

namespace strata::host {
namespace {

/// How often a companion is served at least.
constexpr int kCompanionMilliseconds = 1000;

}  // namespace

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
  return std::any_of(processes_.begin(), processes_.end(), [](const auto& process) { return process->running; });
}

}  // namespace strata::host

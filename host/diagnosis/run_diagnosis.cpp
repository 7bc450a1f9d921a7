#include "diagnosis/run_diagnosis.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <utility>

#include "diagnosis/run_signals.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

using WatchClock = std::chrono::steady_clock;
using WatchSeconds = std::chrono::duration<double>;

/// Longest time between two looks, so that requests are answered soon.
constexpr double kLongestBetweenLooks = 1;
/// Time in which other processes answer a request for records, in looks of this length.
constexpr double kAnswer = 3 * kLongestBetweenLooks;
/// Oldest record that says what a rank does now.
constexpr std::chrono::seconds kRecent{10};

/// Time between two looks, short enough for all times after which something is done.
double pause_of(const DiagnosisSettings& settings) {
  double pause = kLongestBetweenLooks;
  for (const double time : {settings.interval, settings.stop_grace}) {
    if (time > 0) pause = std::min(pause, time / 4);
  }
  return pause;
}

bool is_refusal(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConfigurationError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string whole_seconds(double seconds) { return std::to_string(std::lround(std::floor(seconds))) + " s"; }

std::string rank_subject(const std::vector<int>& ranks, const char* one, const char* many) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + describe_ranks(ranks) + (ranks.size() == 1 ? one : many);
}

/// Ranks that do the same.
struct Standstill {
  bool waits = false;
  std::string what;
  std::vector<int> ranks;
  double seconds = 0;
};

void add_standstill(std::vector<Standstill>& all, const FlightRecord& record, double seconds) {
  const bool waits = record.obstacle() != nullptr;
  const std::string what = describe(record);
  auto found = std::ranges::find(all, what, &Standstill::what);
  if (found == all.end()) found = all.insert(all.end(), {waits, what, {}, seconds});
  found->ranks.push_back(record.rank);
  found->seconds = std::min(found->seconds, seconds);
}

/// Those that do not wait for others first.
std::vector<std::string> messages_of(std::vector<Standstill> all) {
  std::ranges::stable_sort(all, {}, &Standstill::waits);
  std::vector<std::string> messages;
  for (const Standstill& each : all) {
    messages.push_back(rank_subject(each.ranks, " has been ", " have been ") + each.what + " for " +
                       whole_seconds(each.seconds));
  }
  return messages;
}

}  // namespace

Watchdog::Watchdog(const FlightRecorders& recorders, double interval) : recorders_(recorders), interval_(interval) {}

Watchdog::Findings Watchdog::look(double now) {
  Findings findings;
  std::vector<Standstill> still;
  std::map<std::string, std::vector<int>> going_on;
  for (const auto& [rank, recorder] : recorders_.all()) {
    recorder->observe(now);
    const FlightRecorder::Movement movement = recorder->movement();
    Seen& seen = seen_.try_emplace(rank, Seen{movement.moves, now, interval_}).first->second;
    const double seconds = now - seen.since;
    if (movement.moves != seen.moves || movement.is_over) {
      if (seen.patience > interval_ && movement.moves != seen.moves) going_on[whole_seconds(seconds)].push_back(rank);
      seen = {movement.moves, now, interval_};
    } else if (interval_ > 0 && seconds >= seen.patience) {
      add_standstill(still, recorder->read(), seconds);
      seen.patience *= 2;
      findings.hangs = true;
    }
  }
  findings.messages = messages_of(std::move(still));
  for (const auto& [seconds, ranks] : going_on) {
    findings.messages.push_back(rank_subject(ranks, " goes on", " go on") + " after " + seconds);
  }
  return findings;
}

std::vector<std::string> Watchdog::describe_all(double now) const {
  std::vector<Standstill> all;
  for (const auto& [rank, recorder] : recorders_.all()) {
    const auto seen = seen_.find(rank);
    if (seen == seen_.end() || recorder->movement().is_over) continue;
    add_standstill(all, recorder->read(), now - seen->second.since);
  }
  return messages_of(std::move(all));
}

bool StopGrace::look(double now, bool is_asked) {
  std::uint64_t moves = 0;
  bool runs = false;
  bool saves = false;
  bool computes = false;
  for (const auto& [rank, recorder] : recorders_.all()) {
    const FlightRecorder::Movement movement = recorder->movement();
    moves += movement.moves;
    runs = runs || !movement.is_over;
    saves = saves || movement.activity == Activity::saving;
    computes = computes || movement.activity == Activity::training || movement.activity == Activity::evaluating;
  }
  if (!moved_at_ || moves != moves_) {
    if (moved_at_ && computes_) longest_ = std::max(longest_, now - *moved_at_);
    moves_ = moves;
    moved_at_ = now;
  }
  computes_ = computes;
  if (!is_asked) asked_at_.reset();
  if (is_asked && !asked_at_) asked_at_ = now;
  if (seconds_ == 0 || !asked_at_ || !runs || saves) return false;
  return now - std::max(*moved_at_, *asked_at_) >= patience();
}

bool StopGrace::may_go_on(const FlightRecord& record) const {
  if (!record.error.empty() || record.activity == Activity::ended) return false;
  return record.activity == Activity::saving || record.seconds < patience();
}

double StopGrace::patience() const { return std::max(seconds_, 2 * longest_); }

RunDiagnosis::RunDiagnosis(const World& world, DiagnosisSettings settings, std::function<void(const std::string&)> say)
    : recorders_(world),
      settings_(std::move(settings)),
      rank_count_(world.rank_count()),
      say_(std::move(say)),
      watchdog_(recorders_, settings_.interval),
      stop_grace_(recorders_, settings_.stop_grace),
      signals_(RunSignals::record_requests()) {
  if (!settings_.folder.empty()) folder_.emplace(settings_.folder);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void RunDiagnosis::watch(const std::stop_token& stop) {
  const double pause = pause_of(settings_);
  double now = pause;
  WatchClock::time_point last = WatchClock::now();
  std::mutex mutex;
  std::condition_variable_any ends;
  std::unique_lock lock(mutex);
  while (!ends.wait_for(lock, stop, WatchSeconds(pause), [&] { return stop.stop_requested(); })) {
    const WatchClock::time_point time = WatchClock::now();
    // Time in which the process was stopped does not count: its ranks could not move.
    now += std::min(WatchSeconds(time - last).count(), 2 * pause);
    last = time;
    look(now);
  }
  // Ranks that were named may have gone on in the meantime.
  name_standstills(now);
}

void RunDiagnosis::look(double now) {
  name_standstills(now);
  answer_signal();
  bool is_requested = false;
  {
    const std::lock_guard lock(files_);
    is_requested = folder_ && folder_->is_requested();
  }
  if (is_requested) write_all();
  stop_if_hung(now);
}

void RunDiagnosis::name_standstills(double now) {
  const Watchdog::Findings findings = watchdog_.look(now);
  for (const std::string& message : findings.messages) say_(message);
  if (!findings.hangs || !folder_) return;
  request(findings.messages.front());
  if (write_all()) tell_folder();
}

void RunDiagnosis::tell_folder() {
  if (std::exchange(has_told_folder_, true)) return;
  say_("to compare what all ranks do: strata diagnose " + folder_->path().string());
}

void RunDiagnosis::answer_signal() {
  const std::uint64_t signals = RunSignals::record_requests();
  if (std::exchange(signals_, signals) == signals || !folder_) return;
  request("SIGQUIT to the process of " + rank_text());
  if (write_all()) say_("on SIGQUIT, the records of " + rank_text() + " were written to " + folder_->path().string());
}

void RunDiagnosis::set_stop(StopRanks stop) {
  const std::lock_guard lock(stopping_);
  stop_ = std::move(stop);
}

void RunDiagnosis::stop_if_hung(double now) {
  if (has_stopped_ || !settings_.asked_to_stop) return;
  if (!stop_grace_.look(now, settings_.asked_to_stop())) {
    others_asked_.reset();
    return;
  }
  if (others_may_go_on(now)) return;
  has_stopped_ = true;
  const std::string reason =
      "asked to stop, but no rank gets on (run.stop_grace): " + join(watchdog_.describe_all(now), "; ");
  request(reason);
  if (write_all()) tell_folder();
  const std::lock_guard lock(stopping_);
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(WatchSeconds(settings_.stop_grace));
  if (stop_) stop_(reason, patience);
}

bool RunDiagnosis::others_may_go_on(double now) {
  const auto& own = recorders_.all();
  if (!folder_ || static_cast<int>(own.size()) == rank_count_) return false;
  request("asked to stop, but no move of " + rank_text());
  if (!write_all()) return false;
  if (!others_asked_) others_asked_ = now;
  if (now - *others_asked_ < kAnswer) return true;
  for (int rank = 0; rank < rank_count_; ++rank) {
    if (std::ranges::any_of(own, [&](const auto& each) { return each.first == rank; })) continue;
    const std::optional<FlightRecord> record = folder_->read_recent(rank, own.front().first, kRecent);
    if (record && stop_grace_.may_go_on(*record)) return true;
  }
  return false;
}

void RunDiagnosis::failed(int rank, const std::exception_ptr& error) {
  if (!folder_ || rank_count_ == 1 || is_refusal(error)) return;
  bool is_first = false;
  {
    const std::lock_guard lock(files_);
    is_first = !std::exchange(any_failed_, true);
  }
  if (!is_first) {
    try_to([&] { folder_->write(recorders_.of(rank).read()); });
    return;
  }
  write_all();
  request("rank " + std::to_string(rank) + " failed: " + recorders_.of(rank).read().error);
}

void RunDiagnosis::request(const std::string& reason) {
  try_to([&] { folder_->request(reason); });
}

bool RunDiagnosis::write_all() {
  if (!folder_) return false;
  return try_to([&] {
    for (const auto& [rank, recorder] : recorders_.all()) folder_->write(recorder->read());
  });
}

bool RunDiagnosis::try_to(const std::function<void()>& write) {
  const std::lock_guard lock(files_);
  try {
    write();
    return true;
  } catch (const std::exception& error) {
    if (!std::exchange(has_complained_, true)) say_(std::string("no record could be written: ") + error.what());
    return false;
  }
}

std::string RunDiagnosis::rank_text() const {
  std::vector<int> ranks;
  for (const auto& each : recorders_.all()) ranks.push_back(each.first);
  return (ranks.size() == 1 ? "rank " : "ranks ") + describe_ranks(ranks);
}

}  // namespace strata::host

#include "diagnosis/run_diagnosis.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "diagnosis/record_signal.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

using WatchClock = std::chrono::steady_clock;
using WatchSeconds = std::chrono::duration<double>;

/// Longest time between two looks, so that requests are answered soon.
constexpr double kLongestPause = 1;

bool is_refusal(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConfigurationError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

RunDiagnosis::RunDiagnosis(const World& world, DiagnosisSettings settings, std::function<void(const std::string&)> say)
    : recorders_(world),
      settings_(std::move(settings)),
      rank_count_(world.rank_count()),
      say_(std::move(say)),
      watchdog_(recorders_, settings_.interval),
      signals_(RecordSignal::count()) {
  if (!settings_.folder.empty()) folder_.emplace(settings_.folder);
  thread_ = std::thread([this] { watch(); });
}

RunDiagnosis::~RunDiagnosis() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void RunDiagnosis::watch() {
  const double pause = settings_.interval > 0 ? std::min(settings_.interval / 4, kLongestPause) : kLongestPause;
  double now = pause;
  WatchClock::time_point last = WatchClock::now();
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, WatchSeconds(pause), [this] { return is_ending_; })) {
    const WatchClock::time_point time = WatchClock::now();
    // Time in which the process was stopped does not count: its ranks could not move.
    now += std::min(WatchSeconds(time - last).count(), 2 * pause);
    last = time;
    lock.unlock();
    look(now);
    lock.lock();
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
}

void RunDiagnosis::name_standstills(double now) {
  const Watchdog::Findings findings = watchdog_.look(now);
  for (const std::string& message : findings.messages) say_(message);
  if (!findings.hangs || !folder_) return;
  request(findings.messages.front());
  if (!write_all() || std::exchange(has_told_folder_, true)) return;
  say_("to compare what all ranks do: strata diagnose " + folder_->path().string());
}

void RunDiagnosis::answer_signal() {
  const std::uint64_t signals = RecordSignal::count();
  if (std::exchange(signals_, signals) == signals || !folder_) return;
  request("SIGQUIT to the process of " + rank_text());
  if (write_all()) say_("on SIGQUIT, the records of " + rank_text() + " were written to " + folder_->path().string());
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

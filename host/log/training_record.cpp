#include "log/training_record.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "files/text_format.hpp"

namespace strata::host {
namespace {

/// First steps, in which caches, memory pages and clocks are not yet warmed up.
constexpr std::uint64_t kWarmupSteps = 3;

double median_of_others(const RankTimes& times, std::size_t rank) {
  std::vector<double> others;
  for (std::size_t i = 0; i < times.seconds.size(); ++i) {
    if (i != rank) others.push_back(times.own_seconds(i));
  }
  return median(std::move(others));
}

std::string milliseconds(double seconds) { return format_line(seconds < 0.1 ? "%.2f ms" : "%.0f ms", seconds * 1e3); }

}  // namespace

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string without_numbers(const std::string& name) {
  std::string kept;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '.');) {
    if (part.find_first_not_of("0123456789") == std::string::npos) continue;
    kept += (kept.empty() ? "" : ".") + part;
  }
  return kept;
}

std::string metrics_text(const std::vector<Metric>& metrics) {
  std::string text;
  for (const Metric& each : metrics) {
    if (without_numbers(each.name) == each.name) text += "  " + each.name + format_line(" %.4g", each.value);
  }
  return text;
}

bool is_finite(const StepRecord& record) { return std::isfinite(record.loss) && std::isfinite(record.gradient_norm); }

void SteadyMedian::add(double value) {
  const std::uint64_t index = count_++;
  if (index == kWarmupSteps) values_.clear();
  if (index >= kWarmupSteps && (index - kWarmupSteps) % stride_ != 0) return;
  values_.push_back(value);
  if (values_.size() < kMostValues) return;
  for (std::size_t i = 0; i < kMostValues / 2; ++i) values_[i] = values_[2 * i];
  values_.resize(kMostValues / 2);
  stride_ *= 2;
}

double SteadyMedian::value() const { return values_.empty() ? 0 : median(values_); }

std::string describe(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return "nothing";
    case StopReason::request:
      return "a request";
    case StopReason::stop_after:
      return "run.stop_after";
    case StopReason::job_end:
      return "the coming end of the Slurm job (run.stop_before_job_end)";
    case StopReason::hangup:
      return "SIGHUP";
    case StopReason::user_signal:
      return "SIGUSR1";
    case StopReason::interrupt:
      return "SIGINT";
    case StopReason::terminate:
      return "SIGTERM";
  }
  return "an unknown reason";
}

void RankTimeValues::set(int rank, double seconds, double wait_seconds, double data_wait_seconds) {
  std::ranges::fill(values_, 0);
  const auto at = values_.begin() + static_cast<std::ptrdiff_t>(kTimes) * rank;
  at[0] = seconds;
  at[1] = wait_seconds;
  at[2] = data_wait_seconds;
}

RankTimes RankTimeValues::times(std::uint64_t step) const {
  RankTimes result{.step = step, .seconds = {}, .wait_seconds = {}, .data_wait_seconds = {}};
  for (std::size_t i = 0; i < values_.size(); i += kTimes) {
    result.seconds.push_back(values_[i]);
    result.wait_seconds.push_back(values_[i + 1]);
    result.data_wait_seconds.push_back(values_[i + 2]);
  }
  return result;
}

std::vector<std::string> Stragglers::note(const RankTimes& times) {
  std::vector<std::string> sentences;
  const std::size_t ranks = times.seconds.size();
  if (ranks < 2) return sentences;
  streaks_.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Streak& streak = streaks_[rank];
    const double own = times.own_seconds(rank);
    const double others = median_of_others(times, rank);
    if ((own >= kRatio * others) == streak.is_slow) {
      streak = {.is_slow = streak.is_slow};
      continue;
    }
    ++streak.steps;
    streak.own_seconds += own;
    streak.other_seconds += others;
    streak.data_wait_seconds += times.data_wait_seconds[rank];
    if (streak.steps < kSteps) continue;
    const std::string steps = std::to_string(kSteps) + " steps up to step " + std::to_string(times.step);
    if (streak.is_slow) {
      sentences.push_back("rank " + std::to_string(rank) + " has kept up with the others in the " + steps);
    } else {
      sentences.push_back("rank " + std::to_string(rank) + " is slow: in the " + steps + " it took " +
                          milliseconds(streak.own_seconds / kSteps) + " for its own work, of which it waited " +
                          milliseconds(streak.data_wait_seconds / kSteps) +
                          " for data; the median of the other ranks is " + milliseconds(streak.other_seconds / kSteps));
    }
    streak = {.is_slow = !streak.is_slow};
  }
  return sentences;
}

}  // namespace strata::host

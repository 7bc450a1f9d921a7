#include "heartbeat.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>
#include <utility>

namespace strata::rendezvous {
namespace {

/// Peers get this many seconds, however short the patience of communications is.
constexpr double kLeastPatience = 10;

}  // namespace

std::string seconds_text(Clock::duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  std::ostringstream text;
  text << (seconds < 1 ? seconds : std::floor(seconds)) << " s";
  return text.str();
}

Heartbeat Heartbeat::with_patience(double seconds) {
  Heartbeat heartbeat;
  const std::chrono::duration<double> patience(std::max(seconds, kLeastPatience));
  heartbeat.patience = std::chrono::duration_cast<std::chrono::milliseconds>(patience);
  return heartbeat;
}

void Heartbeat::tell(const std::string& text) const {
  if (notice) return notice(text);
  // One call, so that the lines of several processes do not mix.
  std::cerr << "warning: " + text + '\n' << std::flush;
}

Pulse::Pulse(const Heartbeat& heartbeat, Clock::time_point now)
    : interval_(heartbeat.interval),
      first_warning_(heartbeat.warning),
      patience_(heartbeat.patience),
      heard_(now),
      updated_(now),
      next_beat_(now + interval_),
      next_warning_(first_warning_) {}

void Pulse::heard(Clock::time_point now) { heard_ = now; }

bool Pulse::beat_is_due(Clock::time_point now) {
  if (now < next_beat_) return false;
  next_beat_ = now + interval_;
  return true;
}

Pulse::Change Pulse::update(Clock::time_point now) {
  const Clock::duration pause = now - updated_;
  updated_ = now;
  if (pause > 2 * interval_) heard_ = std::min(heard_ + pause, now);
  const Clock::duration silence = now - heard_;
  if (silence < first_warning_) {
    next_warning_ = first_warning_;
    return std::exchange(warned_, false) ? Change::answers_again : Change::none;
  }
  silence_ = silence;
  if (silence >= patience_) return Change::lost;
  if (silence < next_warning_) return Change::none;
  // Fewer and fewer warnings, for example after 6, 12, 24 and 48 seconds.
  next_warning_ *= 2;
  warned_ = true;
  return Change::silent;
}

std::string Pulse::silence() const { return seconds_text(silence_); }

std::string warning_of(Pulse::Change change, const Pulse& pulse, const std::string& peer) {
  if (change == Pulse::Change::answers_again) return peer + " answers again after " + pulse.silence();
  return peer + " has not answered for " + pulse.silence() + ": its process is stopped, or the network fails";
}

std::optional<std::string> Waiting::tell(const std::function<std::string()>& what) {
  if (Clock::now() < next()) return std::nullopt;
  const std::string text = "waited " + seconds_text(after_) + " for " + what();
  after_ *= 2;
  heartbeat_.tell(text);
  return text;
}

bool Waiting::await(const Descriptor& socket, bool to_write, Clock::time_point deadline,
                    const std::function<std::string()>& what) {
  while (!await_socket(socket, to_write, std::min(deadline, next()))) {
    if (Clock::now() >= deadline) return false;
    tell(what);
  }
  return true;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (first == 0 ? "" : ", ") + std::to_string(ranks[first]);
    if (last > first) text += (last == first + 1 ? ", " : " to ") + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace strata::rendezvous

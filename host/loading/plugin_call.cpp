#include "loading/plugin_call.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "loading/signal_free_thread.hpp"

namespace strata::host {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Longest time between two looks.
constexpr double kLongestPause = 5;

}  // namespace

PluginError refusal_of(const PluginOrigin& origin, const char* hook, const std::string& option,
                       const std::string& message) {
  const std::string name = origin.label + " ";
  // "library 1 'extras' registers an op without a definition": the message goes on after the name.
  if (message.starts_with(name)) return {origin, "", option, message.substr(name.size())};
  return {origin, hook, option, message};
}

std::string in_hook(const PluginOrigin& origin, const char* hook, const std::string& message) {
  return message.starts_with(origin.label) ? message : origin.label + ": hook '" + hook + "': " + message;
}

const OptionSchema& declared_options(const PluginOrigin& origin, const PluginFactory& factory) {
  return call_plugin(origin, "options", [&]() -> const OptionSchema& { return factory.options(); });
}

std::string hook_failure(const char* hook) {
  return "hook '" + std::string(hook) + "' threw " + current_exception_text();
}

HookWatch::HookWatch(double limit, std::function<void(const std::string&)> say)
    : say_(std::move(say)), limit_(limit), thread_(signal_free_thread([this] { watch(); })) {}

HookWatch::~HookWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
}

void HookWatch::set_limit(double seconds) {
  {
    const std::lock_guard lock(mutex_);
    limit_ = seconds;
  }
  changed_.notify_all();
}

double HookWatch::pause() const { return limit_ > 0 ? std::min(kLongestPause, limit_ / 4) : kLongestPause; }

void HookWatch::watch() {
  double now = 0;
  Clock::time_point last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    changed_.wait_for(lock, Seconds(pause()));
    const Clock::time_point time = Clock::now();
    // Time in which the process was stopped does not count: its hooks could not end.
    now += std::min(Seconds(time - last).count(), 2 * pause());
    last = time;
    const std::vector<std::string> messages = look(now);
    lock.unlock();
    for (const std::string& message : messages) say_(message);
    lock.lock();
  }
}

std::vector<std::string> HookWatch::look(double now) {
  std::map<std::size_t, Seen> still;
  std::vector<std::string> messages;
  for (const RunningHook& each : running_hooks()) {
    const auto before = seen_.find(each.thread);
    const bool stays = before != seen_.end() && before->second.moves == each.moves;
    Seen& seen = still.emplace(each.thread, stays ? before->second : Seen{each.moves, now, limit_}).first->second;
    const double seconds = now - seen.since;
    if (limit_ <= 0 || seconds < seen.patience) continue;
    seen.patience = std::max(2 * seen.patience, limit_);
    const std::string message = std::string(each.plugin) + ": hook '" + each.hook + "' has been running for " +
                                std::to_string(std::lround(std::floor(seconds))) + " s";
    if (!contains(messages, message)) messages.push_back(message);
  }
  seen_ = std::move(still);
  return messages;
}

}  // namespace strata::host

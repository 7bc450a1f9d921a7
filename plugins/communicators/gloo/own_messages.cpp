#include "own_messages.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace strata::gloo {
namespace {

/// Time between two looks at whether the run has ended.
constexpr std::chrono::milliseconds kPause{20};

}  // namespace

void OwnMessages::send(const MessageCall& call) {
  const auto* begin = static_cast<const std::byte*>(call.data);
  std::vector<std::byte> data(begin, begin + call.bytes);
  const std::lock_guard lock(mutex_);
  messages_[call.id].push_back(std::move(data));
  changed_.notify_all();
}

void OwnMessages::receive(const MessageCall& call, Endpoint& endpoint) {
  const Clock::time_point deadline = endpoint.deadline();
  std::unique_lock lock(mutex_);
  while (messages_[call.id].empty()) {
    if (endpoint.watch().end()) throw Stopped{};
    if (Clock::now() >= deadline) throw Late{call.peer};
    changed_.wait_until(lock, std::min(deadline, Clock::now() + kPause));
  }
  const auto found = messages_.find(call.id);
  const std::vector<std::byte> data = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) messages_.erase(found);
  if (static_cast<std::int64_t>(data.size()) != call.bytes) {
    throw Trouble{"this rank sends itself " + std::to_string(data.size()) + " bytes and receives " +
                  std::to_string(call.bytes)};
  }
  if (!data.empty()) std::memcpy(call.data, data.data(), data.size());
}

}  // namespace strata::gloo

#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "rendezvous_run.hpp"

namespace strata::rendezvous {

/// Stands between rank 0 and one other process, and passes their bytes through a filter.
class Proxy {
 public:
  /// What is passed on instead of `bytes`. `to_first`: they are sent to rank 0.
  using Filter = std::function<std::string(bool to_first, const std::string& bytes)>;

  /// `target`: the port on which rank 0 will listen.
  explicit Proxy(std::uint16_t target)
      : target_(target), listener_(listen_on("127.0.0.1", 0)), thread_([this] { run(); }) {}
  ~Proxy() {
    over_ = true;
    thread_.join();
  }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] std::uint16_t target() const { return target_; }
  [[nodiscard]] std::uint16_t port() const { return port_of(listener_); }
  void set_filter(Filter filter) {
    const std::lock_guard lock(mutex_);
    filter_ = std::move(filter);
  }

 private:
  void run() {
    Descriptor rank;
    while (!over_ && !rank.is_open()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      rank = accept_from(listener_.sockets.front()).socket;
    }
    if (over_) return;
    const Descriptor first = connect_to("127.0.0.1", target_, Clock::now() + std::chrono::minutes(1));
    while (!over_) {
      std::array<pollfd, 2> wanted{{{rank.number(), POLLIN, 0}, {first.number(), POLLIN, 0}}};
      ::poll(wanted.data(), wanted.size(), 5);
      if (!pass(rank, first, true) || !pass(first, rank, false)) return;
    }
  }
  /// \return false if the connection has ended.
  bool pass(const Descriptor& from, const Descriptor& to, bool to_first) {
    std::string bytes;
    const auto ending = receive_some(from, bytes);
    if (!bytes.empty()) {
      const std::lock_guard lock(mutex_);
      if (filter_) bytes = filter_(to_first, bytes);
    }
    return !ending && !send_some(to, bytes);
  }

  std::uint16_t target_;
  Listener listener_;
  std::atomic<bool> over_ = false;
  std::mutex mutex_;
  Filter filter_;
  std::thread thread_;
};

}  // namespace strata::rendezvous

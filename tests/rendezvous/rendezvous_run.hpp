#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/admission.hpp"
#include "rendezvous/exchange.hpp"
#include "rendezvous/heartbeat.hpp"
#include "rendezvous/protocol.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {

using namespace std::chrono_literals;

inline const std::string kSecret = "a secret for tests";

inline std::uint16_t free_port() { return port_of(listen_on("127.0.0.1", 0)); }

inline ProcessEnvironment environment(int rank, int count, std::uint16_t port) {
  return {rank, count, std::nullopt, "127.0.0.1", port, kSecret};
}

inline std::vector<ProcessEnvironment> processes(int count) {
  const std::uint16_t port = free_port();
  std::vector<ProcessEnvironment> all;
  for (int rank = 0; rank < count; ++rank) all.push_back(environment(rank, count, port));
  return all;
}

/// What `body` throws, with the kind of error. Empty if it throws nothing.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ConfigurationError& error) {
    return std::string("configuration: ") + error.what();
  } catch (const AbortedError& error) {
    return std::string("aborted: ") + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Runs `body` as every rank's process would, on threads. \return the error of each rank with its kind.
inline std::vector<std::string> run(const std::vector<ProcessEnvironment>& processes,
                                    std::chrono::milliseconds patience,
                                    const std::function<void(Store&, const ProcessEnvironment&)>& body,
                                    const Heartbeat& heartbeat = {}) {
  std::vector<std::string> errors(processes.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    threads.emplace_back([&, i] {
      errors[i] = error_of([&] {
        const auto store = join(processes[i], Clock::now() + patience, heartbeat);
        body(*store, processes[i]);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void nothing(Store& /*store*/, const ProcessEnvironment& /*own*/) {}

/// Waits until `is_true`, for as long as a very slow machine may need.
inline bool await(const std::function<bool()>& is_true) {
  const Clock::time_point deadline = Clock::now() + 120s;
  while (!is_true()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

inline Descriptor connect_to(const std::string& address, std::uint16_t port, Clock::time_point deadline) {
  Waiting waiting{Heartbeat{}};
  return connect_to(address, port, deadline, waiting);
}

/// A connection that does not identify itself.
inline Descriptor stranger(std::uint16_t port) { return connect_to("127.0.0.1", port, Clock::now() + 60s); }

/// Collects what is told the operator.
class Notices {
 public:
  /// A heartbeat whose notices come soon.
  [[nodiscard]] Heartbeat heartbeat(std::chrono::milliseconds patience) {
    return {.interval = 20ms,
            .warning = 100ms,
            .patience = patience,
            .waiting = 20ms,
            .lookup_pause = 1ms,
            .notice = [this](const std::string& text) {
              const std::lock_guard lock(mutex_);
              texts_.push_back(text);
            }};
  }
  /// Waits for a notice that contains `text`, after the one that was awaited last.
  bool await_text(const std::string& text) {
    return await([&] {
      const std::lock_guard lock(mutex_);
      while (next_ < texts_.size()) {
        if (texts_[next_++].find(text) != std::string::npos) return true;
      }
      return false;
    });
  }
  /// Waits until `count` processes have told the same, which contains `text`.
  bool await_equal(const std::string& text, int count) {
    return await([&] {
      const std::lock_guard lock(mutex_);
      std::map<std::string, int> told;
      for (const std::string& each : texts_) {
        if (each.find(text) != std::string::npos && ++told[each] == count) return true;
      }
      return false;
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
  std::size_t next_ = 0;
};

inline void write(const Descriptor& socket, std::string bytes) { (void)send_some(socket, bytes); }

/// The next frame of a peer that has not authenticated itself. Empty if the connection ends before.
inline std::optional<Frame> next_frame(const Descriptor& socket, std::string& received) {
  while (true) {
    if (auto frame = decode(received, kLongestFrame)) return frame;
    if (!await_socket(socket, false, Clock::now() + 60s) || receive_some(socket, received)) return std::nullopt;
  }
}

/// Waits until the peer has closed a connection.
inline bool is_closed_by_peer(const Descriptor& socket) {
  std::string received;
  while (await_socket(socket, false, Clock::now() + 60s)) {
    if (receive_some(socket, received)) return true;
  }
  return false;
}

}  // namespace strata::rendezvous

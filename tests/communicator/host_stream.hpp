#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "strata/device.hpp"
#include "strata/error.hpp"

namespace strata::testing {

class HostCapture;
class HostStream;

/// A point in the work of a HostStream.
class HostPoint final : public Event, public std::enable_shared_from_this<HostPoint> {
 public:
  void reach() {
    // Notify under the lock, because a waiting thread may destroy the point as soon as it returns.
    const std::lock_guard lock(mutex_);
    reached_ = true;
    changed_.notify_all();
  }
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }
  [[nodiscard]] bool is_reached() {
    const std::lock_guard lock(mutex_);
    return reached_;
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    reached_ = false;
  }

  /// True if the point only orders the work of a capture. Then nobody may ask whether it is reached.
  bool of_capture = false;
  std::weak_ptr<HostCapture> capture;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
};

/// Receives a stream's work during a capture.
class HostCapture {
 public:
  virtual ~HostCapture() = default;
  virtual void join(HostStream& stream) = 0;
  virtual void add(HostStream& stream, std::function<void()> work) = 0;
  virtual void record(HostStream& stream, HostPoint& point) = 0;
  virtual void wait(HostStream& stream, HostPoint& point) = 0;
  /// Makes all later work of the capture fail.
  virtual void spoil() = 0;
};

/// A stream whose own thread executes work in order, like a GPU's stream.
class HostStream {
 public:
  HostStream() : thread_([this] { run(); }) {}
  ~HostStream() {
    put(nullptr);
    thread_.join();
  }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  void push(std::function<void()> work) {
    if (const auto graph = capture()) return graph->add(*this, std::move(work));
    put(std::move(work));
  }
  /// \return a point after the current work.
  [[nodiscard]] std::shared_ptr<HostPoint> record() {
    auto point = std::make_shared<HostPoint>();
    if (const auto graph = capture()) {
      point->of_capture = true;
      point->capture = graph;
      graph->record(*this, *point);
    } else {
      put([point] { point->reach(); });
    }
    return point;
  }
  /// A stream that waits for captured work is captured as well.
  void wait(const std::shared_ptr<HostPoint>& point) {
    if (const auto graph = point->capture.lock(); graph && !capture()) graph->join(*this);
    if (const auto graph = capture()) return graph->wait(*this, *point);
    put([point] { point->await(); });
  }
  void synchronize() {
    if (capture()) throw RuntimeError("a stream cannot be waited for in a capture");
    HostPoint point;
    put([&point] { point.reach(); });
    point.await();
  }

  [[nodiscard]] std::shared_ptr<HostCapture> capture() {
    const std::lock_guard lock(mutex_);
    return capture_;
  }
  void set_capture(std::shared_ptr<HostCapture> capture) {
    const std::lock_guard lock(mutex_);
    capture_ = std::move(capture);
  }

 private:
  void put(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_one();
  }
  void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty(); });
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!work) return;
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::shared_ptr<HostCapture> capture_;
  std::thread thread_;
};

}  // namespace strata::testing

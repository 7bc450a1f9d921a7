#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "communicator/host_device.hpp"

namespace strata::testing {

/// A device whose streams run beside the host, as a GPU's do: calls only enqueue. Every piece of work is delayed a
/// little, so that missing synchronisation shows.
class StreamDevice : public HostDevice {
 public:
  [[nodiscard]] bool is_host_memory() const override { return false; }

  void copy(StreamKind kind, void* destination, const void* source, std::int64_t bytes) override {
    enqueue(kind, [=, this] { HostDevice::copy(kind, destination, source, bytes); });
  }
  void copy_from_host(StreamKind kind, void* device, const void* host, std::int64_t bytes) override {
    copy(kind, device, host, bytes);
  }
  void copy_to_host(StreamKind kind, void* host, const void* device, std::int64_t bytes) override {
    copy(kind, host, device, bytes);
    synchronize(kind);
  }
  void reduce(StreamKind kind, Reduction reduction, DType dtype, void* destination,
              std::span<const void* const> sources, std::int64_t elements) override {
    enqueue(kind, [=, this, kept = std::vector<const void*>(sources.begin(), sources.end())] {
      HostDevice::reduce(kind, reduction, dtype, destination, kept, elements);
    });
  }
  void fill_zero(StreamKind kind, void* destination, std::int64_t bytes) override {
    enqueue(kind, [=, this] { HostDevice::fill_zero(kind, destination, bytes); });
  }
  [[nodiscard]] std::shared_ptr<Event> record(StreamKind kind) override {
    auto event = std::make_shared<Point>();
    stream(kind).push([event] { event->reach(); });
    return event;
  }
  void wait(StreamKind kind, const std::shared_ptr<Event>& event) override {
    if (!event) return;
    stream(kind).push([point = std::static_pointer_cast<Point>(event)] { point->await(); });
  }
  void synchronize(StreamKind kind) override {
    Point point;
    stream(kind).push([&point] { point.reach(); });
    point.await();
  }
  /// Any work on a stream.
  void enqueue(StreamKind kind, std::function<void()> work) {
    stream(kind).push([work = std::move(work)] {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      work();
    });
  }

 private:
  class Point final : public Event {
   public:
    void reach() {
      // Notified under the lock: a waiting thread may destroy the point as soon as it can return.
      const std::lock_guard lock(mutex_);
      reached_ = true;
      changed_.notify_all();
    }
    void await() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return reached_; });
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool reached_ = false;
  };

  class Stream {
   public:
    Stream() : thread_([this] { run(); }) {}
    ~Stream() {
      push(nullptr);
      thread_.join();
    }
    void push(std::function<void()> work) {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      changed_.notify_one();
    }

   private:
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
    std::thread thread_;
  };

  Stream& stream(StreamKind kind) { return streams_[static_cast<std::size_t>(kind)]; }

  std::array<Stream, 3> streams_;
};

}  // namespace strata::testing

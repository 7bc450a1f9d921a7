#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/host_stream.hpp"
#include "strata/error.hpp"

namespace strata::testing {

/// Work that streams captured, like a CUDA graph. A capture starts on one stream. Other streams join it by waiting for
/// captured work, and the first stream must wait for them in the end. Each launch runs all work on the graph's own
/// streams.
class HostGraph final : public HostCapture, public std::enable_shared_from_this<HostGraph> {
 public:
  /// Begins the capture.
  explicit HostGraph(HostStream& origin) : origin_(&origin) {}

  void join(HostStream& stream) override {
    const std::lock_guard lock(mutex_);
    if (streams_[&stream].own == nullptr) streams_[&stream].own = std::make_unique<HostStream>();
    stream.set_capture(shared_from_this());
  }
  void add(HostStream& stream, std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    require_sound();
    Captured& captured = streams_.at(&stream);
    ++captured.length;
    captured.is_joined = false;
    work_.emplace_back(captured.own.get(), std::move(work));
  }
  void record(HostStream& stream, HostPoint& point) override {
    const std::lock_guard lock(mutex_);
    const Captured& captured = streams_.at(&stream);
    points_.push_back(point.shared_from_this());
    ends_[&point] = {&stream, captured.length};
    work_.emplace_back(captured.own.get(), [reached = &point] { reached->reach(); });
  }
  void wait(HostStream& stream, HostPoint& point) override {
    const std::lock_guard lock(mutex_);
    const auto end = ends_.find(&point);
    if (end == ends_.end()) throw RuntimeError("a capture cannot wait for work outside of it");
    work_.emplace_back(streams_.at(&stream).own.get(), [awaited = &point] { awaited->await(); });
    Captured& awaited = streams_.at(end->second.stream);
    if (&stream == origin_ && awaited.length == end->second.length) awaited.is_joined = true;
  }
  void spoil() override {
    const std::lock_guard lock(mutex_);
    is_spoilt_ = true;
  }

  /// Ends the capture.
  void cancel() {
    const std::lock_guard lock(mutex_);
    for (auto& [stream, captured] : streams_) stream->set_capture(nullptr);
  }
  /// Ends the capture. \return false if some stream's work is not waited for.
  [[nodiscard]] bool end() {
    cancel();
    const std::lock_guard lock(mutex_);
    require_sound();
    return std::all_of(streams_.begin(), streams_.end(),
                       [this](const auto& entry) { return entry.second.is_joined || entry.first == origin_; });
  }

  void launch() {
    origin_->push([graph = shared_from_this()] {
      for (const auto& point : graph->points_) point->reset();
      for (const auto& [stream, work] : graph->work_) stream->push(work);
      for (const auto& [stream, captured] : graph->streams_) {
        HostPoint done;
        captured.own->push([&done] { done.reach(); });
        done.await();
      }
    });
  }

 private:
  void require_sound() const {
    if (is_spoilt_) throw RuntimeError("the capture was invalidated");
  }

  struct Captured {
    std::unique_ptr<HostStream> own;
    int length = 0;
    /// True if the origin waits for all work of this stream.
    bool is_joined = false;
  };
  struct End {
    HostStream* stream = nullptr;
    int length = 0;
  };

  std::mutex mutex_;
  bool is_spoilt_ = false;
  HostStream* origin_;
  std::map<HostStream*, Captured> streams_;
  std::vector<std::shared_ptr<HostPoint>> points_;
  std::map<const HostPoint*, End> ends_;
  std::vector<std::pair<HostStream*, std::function<void()>>> work_;
};

}  // namespace strata::testing

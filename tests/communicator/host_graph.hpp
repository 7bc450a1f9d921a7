#pragma once

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

/// Work that streams captured, as a CUDA graph: it begins with the work of one stream, others come to it by waiting for
/// it there, and must be waited for in the end. Each launch does it all, on streams of the graph's own.
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
  /// Points that can be asked whether the last launch has reached them.
  void add_external(HostStream& stream, HostPoint& point) {
    {
      const std::lock_guard lock(mutex_);
      points_.push_back(point.shared_from_this());
    }
    add(stream, [reached = &point] { reached->reach(); });
  }

  /// Ends the capture. \return false if some stream's work is not waited for.
  [[nodiscard]] bool end() {
    const std::lock_guard lock(mutex_);
    bool all_joined = true;
    for (auto& [stream, captured] : streams_) {
      stream->set_capture(nullptr);
      all_joined = all_joined && (captured.is_joined || stream == origin_);
    }
    return all_joined;
  }

  void launch() {
    for (const auto& point : points_) point->reset();
    origin_->push([graph = shared_from_this()] {
      for (const auto& [stream, work] : graph->work_) stream->push(work);
      for (const auto& [stream, captured] : graph->streams_) {
        HostPoint done;
        captured.own->push([&done] { done.reach(); });
        done.await();
      }
    });
  }

 private:
  struct Captured {
    std::unique_ptr<HostStream> own;
    int length = 0;
    /// The origin waits for all of it.
    bool is_joined = false;
  };
  struct End {
    HostStream* stream = nullptr;
    int length = 0;
  };

  std::mutex mutex_;
  HostStream* origin_;
  std::map<HostStream*, Captured> streams_;
  std::vector<std::shared_ptr<HostPoint>> points_;
  std::map<const HostPoint*, End> ends_;
  std::vector<std::pair<HostStream*, std::function<void()>>> work_;
};

}  // namespace strata::testing

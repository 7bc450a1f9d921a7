#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "communicator/host_stream.hpp"
#include "nccl/gpu_runtime.hpp"

namespace strata::testing {

/// Streams that are host threads, events that are points of their work.
class FakeGpuRuntime final : public nccl::GpuRuntime {
 public:
  void use_device(int) override {}
  [[nodiscard]] void* create_stream() override {
    ++live_;
    return new HostStream;
  }
  void destroy_stream(void* stream) noexcept override {
    --live_;
    delete static_cast<HostStream*>(stream);
  }
  [[nodiscard]] void* create_event() override {
    ++live_;
    return new std::shared_ptr<HostPoint>;
  }
  void destroy_event(void* event) noexcept override {
    --live_;
    delete &point(event);
  }
  void record(void* event, void* stream) override {
    point(event) = std::make_shared<HostPoint>();
    static_cast<HostStream*>(stream)->push([reached = point(event)] { reached->reach(); });
  }
  void wait(void* stream, void* event) override {
    static_cast<HostStream*>(stream)->push([awaited = point(event)] { awaited->await(); });
  }
  [[nodiscard]] bool is_reached(void* event) override { return point(event)->is_reached(); }
  void copy(void* stream, void* destination, const void* source, std::int64_t bytes) override {
    static_cast<HostStream*>(stream)->push([=] {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      std::memcpy(destination, source, static_cast<std::size_t>(bytes));
    });
  }

  /// Streams and events that nobody has destroyed.
  [[nodiscard]] int live() const { return live_; }

 private:
  static std::shared_ptr<HostPoint>& point(void* event) { return *static_cast<std::shared_ptr<HostPoint>*>(event); }

  std::atomic<int> live_{0};
};

}  // namespace strata::testing

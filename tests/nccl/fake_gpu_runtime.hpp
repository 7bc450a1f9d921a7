#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "communicator/host_stream.hpp"
#include "nccl/backend.hpp"

namespace strata::testing {

/// A GPU runtime whose streams are host threads and whose events are points of their work.
class FakeGpuRuntime final : public nccl::GpuRuntime {
 public:
  static constexpr int kMultiprocessors = 60;
  static constexpr int kConnections = 32;

  void use_device(int) override {}
  [[nodiscard]] int multiprocessors(int) override { return kMultiprocessors; }
  [[nodiscard]] int connections() override { return kConnections; }
  [[nodiscard]] std::shared_ptr<void> allocate_pinned(std::int64_t bytes) override {
    return std::shared_ptr<void>(std::calloc(static_cast<std::size_t>(bytes), 1), std::free);
  }
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
  void record(void* event, void* stream) override { point(event) = static_cast<HostStream*>(stream)->record(); }
  void wait(void* stream, void* event) override { static_cast<HostStream*>(stream)->wait(point(event)); }
  [[nodiscard]] bool is_reached(void* event) override {
    if (point(event)->of_capture) {
      if (const auto graph = point(event)->capture.lock()) graph->spoil();
      throw RuntimeError("an event of a capture cannot be asked for");
    }
    return point(event)->is_reached();
  }
  void fill(void* stream, void* pinned, unsigned char value, std::int64_t bytes) override {
    static_cast<HostStream*>(stream)->push([=] {
      auto* const begin = static_cast<unsigned char*>(pinned);
      for (std::int64_t i = 0; i < bytes; ++i) {
        std::atomic_ref<unsigned char>(begin[i]).store(value, std::memory_order_release);
      }
    });
  }
  void copy(void* stream, void* destination, const void* source, std::int64_t bytes) override {
    static_cast<HostStream*>(stream)->push([=] {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      std::memcpy(destination, source, static_cast<std::size_t>(bytes));
    });
  }

  /// Number of streams and events that are not destroyed.
  [[nodiscard]] int live() const { return live_; }

 private:
  static std::shared_ptr<HostPoint>& point(void* event) { return *static_cast<std::shared_ptr<HostPoint>*>(event); }

  std::atomic<int> live_{0};
};

}  // namespace strata::testing

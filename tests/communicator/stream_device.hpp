#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "communicator/host_device.hpp"
#include "communicator/host_stream.hpp"

namespace strata::testing {

/// A device whose streams run concurrently with the host, as on a GPU: calls only enqueue. All work is delayed a
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
  [[nodiscard]] std::shared_ptr<Event> record(StreamKind kind) override { return stream(kind).record(); }
  void wait(StreamKind kind, const std::shared_ptr<Event>& event) override {
    if (event) stream(kind).wait(std::static_pointer_cast<HostPoint>(event));
  }
  void synchronize(StreamKind kind) override { stream(kind).synchronize(); }
  [[nodiscard]] NativeStream native_stream(StreamKind kind) override { return {"host threads", &stream(kind), 0}; }
  /// Enqueues any work on a stream.
  virtual void enqueue(StreamKind kind, std::function<void()> work) {
    stream(kind).push([work = std::move(work)] {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      work();
    });
  }

 protected:
  HostStream& stream(StreamKind kind) { return streams_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<HostStream, 3> streams_;
};

}  // namespace strata::testing

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/device.hpp"

namespace strata::host {

/// A device that passes every call on to another one. Devices that watch kernels derive from it and wrap those of
/// prepare(). Graphs are off, so that every launch is watched.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::shared_ptr<Device> inner) : inner_(std::move(inner)) {}

  std::unique_ptr<Kernel> prepare(const OpInstance& instance) override { return inner_->prepare(instance); }
  std::optional<std::string> uncapturable() const override { return "kernels are watched"; }
  std::unique_ptr<StepGraph> capture(const std::function<void()>& enqueue) override { return inner_->capture(enqueue); }

  std::string description() const override { return inner_->description(); }
  std::vector<std::string> notes() const override { return inner_->notes(); }
  std::int64_t memory_bytes() const override { return inner_->memory_bytes(); }
  bool is_host_memory() const override { return inner_->is_host_memory(); }
  std::optional<std::string> unsupported(const OpInstance& instance) const override {
    return inner_->unsupported(instance);
  }
  std::int64_t workspace_bytes(const OpInstance& instance) const override { return inner_->workspace_bytes(instance); }
  std::optional<KernelChoice> kernel_choice(const OpInstance& instance) const override {
    return inner_->kernel_choice(instance);
  }
  std::shared_ptr<void> allocate(std::int64_t bytes) override { return inner_->allocate(bytes); }
  void copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) override {
    inner_->copy_from_host(stream, device, host, bytes);
  }
  void copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) override {
    inner_->copy_to_host(stream, host, device, bytes);
  }
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t bytes) override {
    inner_->copy(stream, destination, source, bytes);
  }
  void copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                 std::int64_t source_pitch, std::int64_t width, std::int64_t rows) override {
    inner_->copy_rows(stream, destination, destination_pitch, source, source_pitch, width, rows);
  }
  void reduce(StreamKind stream, Reduction reduction, DType dtype, void* destination,
              std::span<const void* const> sources, std::int64_t elements) override {
    inner_->reduce(stream, reduction, dtype, destination, sources, elements);
  }
  void fill_zero(StreamKind stream, void* destination, std::int64_t bytes) override {
    inner_->fill_zero(stream, destination, bytes);
  }
  std::shared_ptr<Event> record(StreamKind stream) override { return inner_->record(stream); }
  void wait(StreamKind stream, const std::shared_ptr<Event>& event) override { inner_->wait(stream, event); }
  void synchronize(StreamKind stream) override { inner_->synchronize(stream); }
  NativeStream native_stream(StreamKind stream) override { return inner_->native_stream(stream); }
  std::shared_ptr<void> allocate_host(std::int64_t bytes) override { return inner_->allocate_host(bytes); }

 protected:
  [[nodiscard]] Device& inner() { return *inner_; }

 private:
  std::shared_ptr<Device> inner_;
};

}  // namespace strata::host

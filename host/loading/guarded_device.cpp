#include "loading/guarded_device.hpp"

#include <utility>

namespace strata::host {
namespace {

class GuardedKernel final : public Kernel {
 public:
  GuardedKernel(std::shared_ptr<Kernel> inner, const PluginOrigin& origin)
      : inner_(std::move(inner)), origin_(origin) {}

  void launch(const KernelArguments& arguments) override {
    run_plugin(origin_, "launch", [&] { inner_->launch(arguments); });
  }

 private:
  std::shared_ptr<Kernel> inner_;
  PluginOrigin origin_;
};

class GuardedGraph final : public StepGraph {
 public:
  GuardedGraph(std::shared_ptr<StepGraph> inner, const PluginOrigin& origin)
      : inner_(std::move(inner)), origin_(origin) {}

  void launch(const StepContext& step) override {
    run_plugin(origin_, "launch", [&] { inner_->launch(step); });
  }

 private:
  std::shared_ptr<StepGraph> inner_;
  PluginOrigin origin_;
};

class GuardedDevice final : public Device {
 public:
  GuardedDevice(std::shared_ptr<Device> inner, PluginOrigin origin)
      : inner_(std::move(inner)), origin_(std::move(origin)) {}

  std::string description() const override {
    return call_plugin(origin_, "description", [&] { return inner_->description(); });
  }
  std::vector<std::string> notes() const override {
    return call_plugin(origin_, "notes", [&] { return inner_->notes(); });
  }
  std::int64_t memory_bytes() const override {
    return call_plugin(origin_, "memory_bytes", [&] { return inner_->memory_bytes(); });
  }
  bool is_host_memory() const override {
    return call_plugin(origin_, "is_host_memory", [&] { return inner_->is_host_memory(); });
  }
  std::optional<std::string> unsupported(const OpInstance& instance) const override {
    return call_plugin(origin_, "unsupported", [&] { return inner_->unsupported(instance); });
  }
  std::int64_t workspace_bytes(const OpInstance& instance) const override {
    return call_plugin(origin_, "workspace_bytes", [&] { return inner_->workspace_bytes(instance); });
  }
  std::unique_ptr<Kernel> prepare(const OpInstance& instance) override {
    std::unique_ptr<Kernel> kernel = run_plugin(origin_, "prepare", [&] { return inner_->prepare(instance); });
    if (kernel == nullptr) return nullptr;
    return std::make_unique<GuardedKernel>(owned_by_plugin(origin_, std::move(kernel)), origin_);
  }
  std::optional<KernelChoice> kernel_choice(const OpInstance& instance) const override {
    return call_plugin(origin_, "kernel_choice", [&] { return inner_->kernel_choice(instance); });
  }
  std::shared_ptr<void> allocate(std::int64_t bytes) override {
    return released_by_plugin(run_plugin(origin_, "allocate", [&] { return inner_->allocate(bytes); }));
  }
  void copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) override {
    run_plugin(origin_, "copy_from_host", [&] { inner_->copy_from_host(stream, device, host, bytes); });
  }
  void copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) override {
    run_plugin(origin_, "copy_to_host", [&] { inner_->copy_to_host(stream, host, device, bytes); });
  }
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t bytes) override {
    run_plugin(origin_, "copy", [&] { inner_->copy(stream, destination, source, bytes); });
  }
  void copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                 std::int64_t source_pitch, std::int64_t width, std::int64_t rows) override {
    run_plugin(origin_, "copy_rows",
               [&] { inner_->copy_rows(stream, destination, destination_pitch, source, source_pitch, width, rows); });
  }
  void reduce(StreamKind stream, Reduction reduction, DType dtype, void* destination,
              std::span<const void* const> sources, std::int64_t elements) override {
    run_plugin(origin_, "reduce", [&] { inner_->reduce(stream, reduction, dtype, destination, sources, elements); });
  }
  void fill_zero(StreamKind stream, void* destination, std::int64_t bytes) override {
    run_plugin(origin_, "fill_zero", [&] { inner_->fill_zero(stream, destination, bytes); });
  }
  std::shared_ptr<Event> record(StreamKind stream) override {
    return run_plugin(origin_, "record", [&] { return inner_->record(stream); });
  }
  void wait(StreamKind stream, const std::shared_ptr<Event>& event) override {
    run_plugin(origin_, "wait", [&] { inner_->wait(stream, event); });
  }
  void synchronize(StreamKind stream) override {
    run_plugin(origin_, "synchronize", [&] { inner_->synchronize(stream); });
  }
  NativeStream native_stream(StreamKind stream) override {
    return call_plugin(origin_, "native_stream", [&] { return inner_->native_stream(stream); });
  }
  std::shared_ptr<void> allocate_host(std::int64_t bytes) override {
    return released_by_plugin(run_plugin(origin_, "allocate_host", [&] { return inner_->allocate_host(bytes); }));
  }
  std::optional<std::string> uncapturable() const override {
    return call_plugin(origin_, "uncapturable", [&] { return inner_->uncapturable(); });
  }
  std::unique_ptr<StepGraph> capture(const std::function<void()>& enqueue) override {
    return std::make_unique<GuardedGraph>(
        run_plugin_around(origin_, "capture", enqueue, [&](const auto& noted) { return inner_->capture(noted); }),
        origin_);
  }

 private:
  /// The memory, whose release is a hook too.
  [[nodiscard]] std::shared_ptr<void> released_by_plugin(std::shared_ptr<void> memory) const {
    void* const address = memory.get();
    if (address == nullptr) return nullptr;
    return {address, [memory = std::move(memory), plugin = origin_.lasting](void*) mutable {
              const HookScope scope(plugin, "release of memory");
              memory.reset();
            }};
  }

  std::shared_ptr<Device> inner_;
  PluginOrigin origin_;
};

}  // namespace

std::unique_ptr<Device> guarded_device(std::shared_ptr<Device> device, PluginOrigin origin) {
  return std::make_unique<GuardedDevice>(std::move(device), std::move(origin));
}

}  // namespace strata::host

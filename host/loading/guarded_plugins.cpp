#include <utility>

#include "loading/plugin_call.hpp"

namespace strata::host {
namespace {

/// The object of a plugin. `Origin`: a reference for short-lived objects, which the plugin's own outlives.
template <class Object, class Origin = PluginOrigin>
class Guarded : public Object {
 public:
  Guarded(std::shared_ptr<Object> inner, Origin origin) : inner_(std::move(inner)), origin_(origin) {}

 protected:
  std::shared_ptr<Object> inner_;
  Origin origin_;
};

class GuardedKernel final : public Guarded<Kernel> {
 public:
  using Guarded::Guarded;

  void launch(const KernelArguments& arguments) override {
    run_plugin(origin_, "launch", [&] { inner_->launch(arguments); });
  }
};

class GuardedGraph final : public Guarded<StepGraph> {
 public:
  using Guarded::Guarded;

  void launch(const StepContext& step) override {
    run_plugin(origin_, "launch", [&] { inner_->launch(step); });
  }
};

class GuardedDevice final : public Guarded<Device> {
 public:
  using Guarded::Guarded;

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
};

class GuardedRequest final : public Guarded<Request, const PluginOrigin&> {
 public:
  using Guarded::Guarded;

  void wait() override {
    run_plugin(origin_, "wait", [&] { inner_->wait(); });
  }
};

class GuardedCapture final : public Guarded<CapturedCommunication, const PluginOrigin&> {
 public:
  using Guarded::Guarded;

  void launched() override {
    run_plugin(origin_, "launched", [&] { inner_->launched(); });
  }
};

class GuardedCommunicator final : public Guarded<Communicator> {
 public:
  using Guarded::Guarded;

  int rank() const override {
    return run_plugin(origin_, "rank", [&] { return inner_->rank(); });
  }
  int rank_count() const override {
    return run_plugin(origin_, "rank_count", [&] { return inner_->rank_count(); });
  }
  int create_group(const std::vector<int>& ranks) override {
    return run_plugin(origin_, "create_group", [&] { return inner_->create_group(ranks); });
  }
  std::unique_ptr<Request> start(const CollectiveCall& call) override {
    return request("start", [&] { return inner_->start(call); });
  }
  std::unique_ptr<Request> send(const MessageCall& call) override {
    return request("send", [&] { return inner_->send(call); });
  }
  std::unique_ptr<Request> receive(const MessageCall& call) override {
    return request("receive", [&] { return inner_->receive(call); });
  }
  void abort(const std::string& reason) noexcept override {
    const HookScope scope(origin_.lasting, "abort");
    inner_->abort(reason);
  }
  void check() override {
    run_plugin(origin_, "check", [&] { inner_->check(); });
  }
  std::optional<std::string> uncapturable() const override {
    return run_plugin(origin_, "uncapturable", [&] { return inner_->uncapturable(); });
  }
  std::unique_ptr<CapturedCommunication> capture(const std::function<void()>& communicate) override {
    return std::make_unique<GuardedCapture>(
        run_plugin_around(origin_, "capture", communicate, [&](const auto& noted) { return inner_->capture(noted); }),
        origin_);
  }
  void make_ready(const CommunicationPlan& plan) override {
    run_plugin(origin_, "make_ready", [&] { inner_->make_ready(plan); });
  }

 private:
  template <class Start>
  std::unique_ptr<Request> request(const char* hook, const Start& start) {
    return std::make_unique<GuardedRequest>(make_by_plugin(origin_, hook, start), origin_);
  }
};

class GuardedWorld final : public Guarded<World> {
 public:
  using Guarded::Guarded;

  int rank_count() const override {
    return call_plugin(origin_, "rank_count", [&] { return inner_->rank_count(); });
  }
  std::vector<int> local_ranks() const override {
    return call_plugin(origin_, "local_ranks", [&] { return inner_->local_ranks(); });
  }
  CommunicatorLimits limits() const override {
    return call_plugin(origin_, "limits", [&] { return inner_->limits(); });
  }
  std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    auto made = owned_by_plugin(origin_, run_plugin(origin_, "connect", [&] { return inner_->connect(rank, device); }));
    if (made == nullptr) return nullptr;
    return std::make_unique<GuardedCommunicator>(std::move(made), origin_);
  }
  int ranks_on_host() const override {
    return call_plugin(origin_, "ranks_on_host", [&] { return inner_->ranks_on_host(); });
  }
  int index_on_host(int rank) const override {
    return call_plugin(origin_, "index_on_host", [&] { return inner_->index_on_host(rank); });
  }
};

}  // namespace

std::unique_ptr<Device> guarded_device(std::shared_ptr<Device> device, PluginOrigin origin) {
  return std::make_unique<GuardedDevice>(std::move(device), std::move(origin));
}

std::unique_ptr<World> guarded_world(std::shared_ptr<World> world, PluginOrigin origin) {
  return std::make_unique<GuardedWorld>(std::move(world), std::move(origin));
}

}  // namespace strata::host

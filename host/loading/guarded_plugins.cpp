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
  /// Calls a function that describes the object, as call_plugin() does.
  template <auto kFunction, class... Arguments>
  auto ask(const char* hook, Arguments&&... arguments) const {
    return call_plugin(origin_, hook, [&] { return ((*inner_).*kFunction)(std::forward<Arguments>(arguments)...); });
  }
  /// Calls a function that works during the run, as run_plugin() does.
  template <auto kFunction, class... Arguments>
  auto run(const char* hook, Arguments&&... arguments) const {
    return run_plugin(origin_, hook, [&] { return ((*inner_).*kFunction)(std::forward<Arguments>(arguments)...); });
  }

  std::shared_ptr<Object> inner_;
  Origin origin_;
};

class GuardedKernel final : public Guarded<Kernel> {
 public:
  using Guarded::Guarded;

  void launch(const KernelArguments& arguments) override { run<&Kernel::launch>("launch", arguments); }
};

class GuardedGraph final : public Guarded<StepGraph> {
 public:
  using Guarded::Guarded;

  void launch(const StepContext& step) override { run<&StepGraph::launch>("launch", step); }
};

class GuardedDevice final : public Guarded<Device> {
 public:
  using Guarded::Guarded;

  std::string description() const override { return ask<&Device::description>("description"); }
  std::vector<std::string> notes() const override { return ask<&Device::notes>("notes"); }
  std::int64_t memory_bytes() const override { return ask<&Device::memory_bytes>("memory_bytes"); }
  bool is_host_memory() const override { return ask<&Device::is_host_memory>("is_host_memory"); }
  std::optional<std::string> unsupported(const OpInstance& instance) const override {
    return ask<&Device::unsupported>("unsupported", instance);
  }
  std::int64_t workspace_bytes(const OpInstance& instance) const override {
    return ask<&Device::workspace_bytes>("workspace_bytes", instance);
  }
  std::unique_ptr<Kernel> prepare(const OpInstance& instance) override {
    std::unique_ptr<Kernel> kernel = run<&Device::prepare>("prepare", instance);
    if (kernel == nullptr) return nullptr;
    return std::make_unique<GuardedKernel>(owned_by_plugin(origin_, std::move(kernel)), origin_);
  }
  std::optional<KernelChoice> kernel_choice(const OpInstance& instance) const override {
    return ask<&Device::kernel_choice>("kernel_choice", instance);
  }
  std::shared_ptr<void> allocate(std::int64_t bytes) override {
    return released_by_plugin(run<&Device::allocate>("allocate", bytes));
  }
  void copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) override {
    run<&Device::copy_from_host>("copy_from_host", stream, device, host, bytes);
  }
  void copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) override {
    run<&Device::copy_to_host>("copy_to_host", stream, host, device, bytes);
  }
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t bytes) override {
    run<&Device::copy>("copy", stream, destination, source, bytes);
  }
  void copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                 std::int64_t source_pitch, std::int64_t width, std::int64_t rows) override {
    run<&Device::copy_rows>("copy_rows", stream, destination, destination_pitch, source, source_pitch, width, rows);
  }
  void reduce(StreamKind stream, Reduction reduction, DType dtype, void* destination,
              std::span<const void* const> sources, std::int64_t elements) override {
    run<&Device::reduce>("reduce", stream, reduction, dtype, destination, sources, elements);
  }
  void fill_zero(StreamKind stream, void* destination, std::int64_t bytes) override {
    run<&Device::fill_zero>("fill_zero", stream, destination, bytes);
  }
  std::shared_ptr<Event> record(StreamKind stream) override { return run<&Device::record>("record", stream); }
  void wait(StreamKind stream, const std::shared_ptr<Event>& event) override {
    run<&Device::wait>("wait", stream, event);
  }
  void synchronize(StreamKind stream) override { run<&Device::synchronize>("synchronize", stream); }
  NativeStream native_stream(StreamKind stream) override {
    return ask<&Device::native_stream>("native_stream", stream);
  }
  std::shared_ptr<void> allocate_host(std::int64_t bytes) override {
    return released_by_plugin(run<&Device::allocate_host>("allocate_host", bytes));
  }
  std::optional<std::string> uncapturable() const override { return ask<&Device::uncapturable>("uncapturable"); }
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

  void wait() override { run<&Request::wait>("wait"); }
};

class GuardedCapture final : public Guarded<CapturedCommunication, const PluginOrigin&> {
 public:
  using Guarded::Guarded;

  void launched() override { run<&CapturedCommunication::launched>("launched"); }
};

class GuardedCommunicator final : public Guarded<Communicator> {
 public:
  using Guarded::Guarded;

  int rank() const override { return run<&Communicator::rank>("rank"); }
  int rank_count() const override { return run<&Communicator::rank_count>("rank_count"); }
  int create_group(const std::vector<int>& ranks) override {
    return run<&Communicator::create_group>("create_group", ranks);
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
  void check() override { run<&Communicator::check>("check"); }
  std::optional<std::string> uncapturable() const override { return run<&Communicator::uncapturable>("uncapturable"); }
  std::unique_ptr<CapturedCommunication> capture(const std::function<void()>& communicate) override {
    return std::make_unique<GuardedCapture>(
        run_plugin_around(origin_, "capture", communicate, [&](const auto& noted) { return inner_->capture(noted); }),
        origin_);
  }
  void make_ready(const CommunicationPlan& plan) override { run<&Communicator::make_ready>("make_ready", plan); }

 private:
  template <class Start>
  std::unique_ptr<Request> request(const char* hook, const Start& start) {
    return std::make_unique<GuardedRequest>(make_by_plugin(origin_, hook, start), origin_);
  }
};

class GuardedWorld final : public Guarded<World> {
 public:
  using Guarded::Guarded;

  int rank_count() const override { return ask<&World::rank_count>("rank_count"); }
  std::vector<int> local_ranks() const override { return ask<&World::local_ranks>("local_ranks"); }
  CommunicatorLimits limits() const override { return ask<&World::limits>("limits"); }
  std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    auto made = owned_by_plugin(origin_, run<&World::connect>("connect", rank, device));
    if (made == nullptr) return nullptr;
    return std::make_unique<GuardedCommunicator>(std::move(made), origin_);
  }
  int ranks_on_host() const override { return ask<&World::ranks_on_host>("ranks_on_host"); }
  int index_on_host(int rank) const override { return ask<&World::index_on_host>("index_on_host", rank); }
};

}  // namespace

std::unique_ptr<Device> guarded_device(std::shared_ptr<Device> device, PluginOrigin origin) {
  return std::make_unique<GuardedDevice>(std::move(device), std::move(origin));
}

std::unique_ptr<World> guarded_world(std::shared_ptr<World> world, PluginOrigin origin) {
  return std::make_unique<GuardedWorld>(std::move(world), std::move(origin));
}

}  // namespace strata::host

#include "conformance/created_object.hpp"

#include <functional>
#include <sstream>
#include <utility>

#include "strata/registration.hpp"

namespace strata::host {
namespace {

/// An object whose description is a function.
class DescribedObject final : public CreatedObject {
 public:
  explicit DescribedObject(std::function<std::string()> describe) : describe_(std::move(describe)) {}
  [[nodiscard]] std::string describe() const override { return describe_(); }

 private:
  std::function<std::string()> describe_;
};

std::unique_ptr<CreatedObject> described(std::function<std::string()> describe) {
  return std::make_unique<DescribedObject>(std::move(describe));
}

std::string to_text(const DimSizes& sizes) {
  std::string text;
  for (const auto& [dim, size] : sizes) text += dim + "=" + std::to_string(size) + " ";
  return text;
}

std::unique_ptr<CreatedObject> create_strategy(Subject& subject, const Options& options) {
  const PluginOrigin origin = subject.origin();
  const std::shared_ptr<Strategy> strategy =
      create_by_plugin(origin, "create", [&] { return subject.factory<StrategyFactory>().create(options); });
  return described([strategy, origin] {
    return call_plugin(origin, "axes", [&] {
      std::string text;
      for (const MeshAxis& axis : strategy->axes()) text += axis.name + "=" + std::to_string(axis.size) + " ";
      for (const Rule& rule : strategy->rules()) {
        text += rule.dim + ">" + rule.axis + " " + std::to_string(rule.priority) + " ";
      }
      if (const auto* hooks = dynamic_cast<const ReplicaHooks*>(strategy.get())) {
        text += join(hooks->unsynchronized_axes(), " ");
      }
      if (const auto* hooks = dynamic_cast<const GradientHooks*>(strategy.get())) {
        text += join(hooks->self_reduced_axes(), " ");
      }
      return text;
    });
  });
}

std::unique_ptr<CreatedObject> create_model(Subject& subject, const Options& options) {
  const PluginOrigin origin = subject.origin();
  const std::shared_ptr<Model> model =
      create_by_plugin(origin, "create", [&] { return subject.factory<ModelFactory>().create(options); });
  return described([model, origin] { return call_plugin(origin, "sizes", [&] { return to_text(model->sizes()); }); });
}

std::unique_ptr<CreatedObject> create_optimizer(Subject& subject, const Options& options) {
  const PluginOrigin origin = subject.origin();
  const std::shared_ptr<Optimizer> optimizer =
      create_by_plugin(origin, "create", [&] { return subject.factory<OptimizerFactory>().create(options); });
  return described([optimizer, origin] {
    const ParameterDescription matrix{
        .name = "matrix", .dims = {"embed", "ffn"}, .contracted = {"embed"}, .elements = 12, .shape = {3, 4}};
    return call_plugin(origin, "states", [&] {
      std::string text;
      for (const OptimizerState& state : optimizer->states(matrix)) text += state.name + " ";
      return text + (optimizer->wants_own_bucket() ? "alone" : "");
    });
  });
}

std::unique_ptr<CreatedObject> create_dataset(Subject& subject, const Options& options) {
  const PluginOrigin origin = subject.origin();
  const DatasetFactory& factory = subject.factory<DatasetFactory>();
  const auto describe = [origin, &factory, options] {
    return call_plugin(origin, "inputs", [&] {
      std::string text;
      for (const DatasetInput& input : factory.inputs(options)) {
        text += input.name + " [" + join(input.dims, " ") + "] " + std::string(to_string(input.dtype)) + " ";
      }
      return text + to_text(factory.sizes(options)) + factory.unit(options);
    });
  };
  static_cast<void>(describe());
  return described(describe);
}

std::unique_ptr<CreatedObject> create_communicator(Subject& subject, const Options& options) {
  const PluginOrigin origin = subject.origin();
  constexpr int kRanks = 2;
  const std::shared_ptr<World> world = create_by_plugin(
      origin, "create", [&] { return subject.factory<CommunicatorFactory>().create(options, kRanks); });
  return described([world, origin] {
    return call_plugin(origin, "local_ranks", [&] {
      std::string text = std::to_string(world->rank_count());
      for (const int rank : world->local_ranks()) text += " " + std::to_string(rank);
      return text + " " + std::to_string(world->limits().channel_capacity);
    });
  });
}

/// A device with the kernels that it needs.
struct DeviceWithKernels {
  OpRegistry ops;
  KernelRegistry kernels;
  std::shared_ptr<Device> device;
};

std::unique_ptr<CreatedObject> create_device(Subject& subject, const Options& options) {
  const PluginOrigin origin = subject.origin();
  const DeviceFactory& factory = subject.factory<DeviceFactory>();
  const auto made = std::make_shared<DeviceWithKernels>();
  register_core(made->ops, made->kernels);
  Registration registration(made->ops, made->kernels, origin.label);
  call_plugin(origin, "provide", [&] { factory.provide(registration, options); });
  const DeviceRequest request{.kernels = &made->kernels};
  made->device = create_by_plugin(origin, "create", [&] { return factory.create(options, request); });
  return described([made, origin] {
    return call_plugin(origin, "description", [&] {
      return made->device->description() + (made->device->is_host_memory() ? " host" : " device");
    });
  });
}

std::unique_ptr<CreatedObject> create_library(Subject& subject, const Options& options) {
  const PluginOrigin origin = subject.origin();
  OpRegistry ops;
  KernelRegistry kernels;
  register_core(ops, kernels);
  Registration registration(ops, kernels, origin.label);
  call_plugin(origin, "provide", [&] { subject.factory<LibraryFactory>().provide(registration, options); });
  const std::string text = join(ops.names(), " ") + join(kernels.ops(), " ");
  return described([text] { return text; });
}

}  // namespace

std::unique_ptr<CreatedObject> create_object(Subject& subject, const Options& options) {
  switch (subject.kind()) {
    case PluginKind::strategy:
      return create_strategy(subject, options);
    case PluginKind::model:
      return create_model(subject, options);
    case PluginKind::communicator:
      return create_communicator(subject, options);
    case PluginKind::device:
      return create_device(subject, options);
    case PluginKind::library:
      return create_library(subject, options);
    case PluginKind::optimizer:
      return create_optimizer(subject, options);
    case PluginKind::dataset:
      return create_dataset(subject, options);
  }
  return nullptr;
}

}  // namespace strata::host

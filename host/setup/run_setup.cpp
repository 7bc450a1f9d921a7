#include "setup/run_setup.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <sstream>
#include <utility>

#include "compiler/stack.hpp"
#include "data/data_source.hpp"
#include "files/text_format.hpp"
#include "loading/plugin_call.hpp"
#include "setup/joined_world.hpp"
#include "setup/launched_process.hpp"
#include "strata/machine.hpp"

namespace strata::host {
namespace {

std::vector<NamedStrategy> make_strategies(const ResolvedPlugins& plugins) {
  std::vector<NamedStrategy> strategies;
  for (const ResolvedPlugin<StrategyFactory>& plugin : plugins.strategies) {
    strategies.push_back({plugin.origin.label,
                          plugin.create("create", [&](const auto& factory) { return factory.create(plugin.options); }),
                          plugin.origin.table});
  }
  return strategies;
}

/// The layer of a parameter: its name up to the first number, or without its last part. Examples: "h.3.attn.weight" is
/// of "h.3", "model.embed_tokens.weight" of "model.embed_tokens".
std::string layer_of(const std::string& parameter) {
  std::istringstream parts(parameter);
  std::string layer;
  for (std::string part; std::getline(parts, part, '.');) {
    layer += (layer.empty() ? "" : ".") + part;
    if (is_digits(part)) return layer;
  }
  return layer.substr(0, layer.rfind('.'));
}

/// The rule of log.norm_groups (OptimizerSettings::norm_group). Empty if only the global norm is logged.
std::function<std::string(const std::string&)> norm_group_rule(const RunConfiguration& configuration,
                                                               const OptimizerSettings& optimizer) {
  switch (configuration.log.chosen_groups()) {
    case NormGroups::layer:
      return layer_of;
    case NormGroups::optimizer_group: {
      std::vector<std::string> names;
      for (const OptimizerGroupSection& group : configuration.optimizer.groups) names.push_back(join(group.parameters));
      names.emplace_back("others");
      return [names = std::move(names), optimizer](const std::string& parameter) {
        return names.at(static_cast<std::size_t>(group_of(optimizer, parameter)));
      };
    }
    default:
      return {};
  }
}

OptimizerSettings make_optimizer(const RunConfiguration& configuration, const ResolvedPlugins& plugins) {
  const OptimizerSection& section = configuration.optimizer;
  OptimizerSettings settings;
  settings.clip = section.clip;
  settings.clip_value = section.clip_value;
  settings.average_decay = section.average.decay;
  for (std::size_t i = 0; i < plugins.optimizers.size(); ++i) {
    const ResolvedPlugin<OptimizerFactory>& plugin = plugins.optimizers[i];
    OptimizerGroup group;
    group.origin = plugin.origin;
    group.optimizer = plugin.create("create", [&](const auto& factory) { return factory.create(plugin.options); });
    group.parameters = {"*"};
    group.weight_decay = section.weight_decay;
    if (i < section.groups.size()) {
      group.parameters = section.groups[i].parameters;
      group.lr_factor = section.groups[i].lr_factor;
      group.weight_decay *= section.groups[i].weight_decay_factor;
      group.frozen = section.groups[i].frozen;
    }
    settings.groups.push_back(std::move(group));
  }
  settings.norm_group = norm_group_rule(configuration, settings);
  return settings;
}

/// The inputs of the dataset, which differ in name or number of dimensions.
std::vector<DatasetInput> inputs_of(const ResolvedPlugin<DatasetFactory>& plugin) {
  std::vector<DatasetInput> inputs =
      call_plugin(plugin.origin, "inputs", [&] { return plugin.factory->inputs(plugin.options); });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DatasetInput& each = inputs[i];
    const auto refuse = [&](const std::string& what) {
      throw PluginError(plugin.origin, "", "", "declares input '" + each.name + "' " + what);
    };
    if (each.dtype != DType::i32 && each.dtype != DType::f32) {
      refuse("as " + std::string(to_string(each.dtype)) + "; accepted: i32, f32");
    }
    if (contains(each.dims, "batch")) refuse("with the dimension 'batch'; accepted: dimensions of one sample");
    if (find_input(inputs, each.name, each.dims.size() + (each.per_sample ? 1 : 0)) != i) {
      refuse(
          "twice with the same number of dimensions, 'batch' included; accepted: inputs of one name that differ in it");
    }
  }
  return inputs;
}

void check_batch(const RunConfiguration& configuration, std::int64_t replicas) {
  try {
    static_cast<void>(split_batch(configuration.batch.global, configuration.batch.micro, replicas));
  } catch (const OptionError& error) {
    throw configuration.error("batch." + error.option(), error.what());
  }
}

/// Checks run.shrink against the mesh: the axis exists, an option gives its ranks, and the least size is not larger.
/// \throws ConfigurationError with file and line.
void check_shrink(const RunSetup& setup) {
  const ShrinkSection& shrink = setup.configuration.run.shrink;
  if (shrink.axis.empty()) return;
  static_cast<void>(find_shrinking_option(setup));
  const int size = setup.stack.mesh.size(shrink.axis);
  if (shrink.min > size) {
    throw setup.configuration.error("run.shrink.min", "found " + std::to_string(shrink.min) + "; accepted: 1 to " +
                                                          std::to_string(size) + ", the size of the axis \"" +
                                                          shrink.axis + "\"");
  }
}

}  // namespace

DimSizes RunSetup::sizes(const DimSizes& data) const {
  try {
    return join_sizes({plugins.model.origin.label, model_sizes}, {plugins.dataset.origin.label, data}, inputs);
  } catch (const ConfigurationError& error) {
    throw configuration.error(configuration.model.path, error.what());
  }
}

DimSizes RunSetup::known_data_sizes() const {
  const ResolvedPlugin<DatasetFactory>& plugin = plugins.dataset;
  return with_places(configuration, [&] {
    return checked_sizes(plugin.origin,
                         call_plugin(plugin.origin, "sizes", [&] { return plugin.factory->sizes(plugin.options); }));
  });
}

DimSizes RunSetup::data_sizes(std::optional<std::int64_t> vocab) const {
  if (!vocab) return open_data().sizes();
  DimSizes sizes = known_data_sizes();
  // The number is that of tokens, which come before classes and segments. The model fixes those.
  const std::vector<Dim> dims = indexed_dims(inputs);
  for (const Dim& dim : dims) {
    const auto fixed = model_sizes.find(dim);
    sizes[dim] = dim == dims.front() || fixed == model_sizes.end() ? *vocab : fixed->second;
  }
  return sizes;
}

DimSizes RunSetup::sizes_without_data() const {
  DimSizes sizes = model_sizes;
  sizes.merge(known_data_sizes());
  add_small_sizes(sizes, inputs, stack);
  return sizes;
}

CompileRequest RunSetup::request(GraphMode mode, DimSizes sizes) const {
  CompileRequest request;
  request.model = model;
  request.model_origin = plugins.model.origin;
  request.device_origin = plugins.device.origin;
  request.strategies = stack.strategies;
  request.registry = ops.get();
  request.mode = mode;
  request.float_type = float_type;
  request.global_batch = configuration.batch.global;
  request.micro_batch = configuration.batch.micro;
  request.sizes = std::move(sizes);
  request.optimizer = optimizer;
  request.times = times;
  return request;
}

Generation RunSetup::generation() const {
  const PluginOrigin& origin = plugins.model.origin;
  auto generation = with_places(configuration,
                                [&] { return call_plugin(origin, "generation", [&] { return model->generation(); }); });
  if (!generation) {
    throw configuration.error(configuration.model.path,
                              origin.label + " generates no text; accepted: a model that does");
  }
  if (generation->source) {
    GenerationSource& source = *generation->source;
    source.start = text_token(OptionRole::text_begin).value_or(source.start);
    source.end = text_token(OptionRole::text_end).value_or(source.end);
  }
  return *generation;
}

std::optional<std::int32_t> RunSetup::text_token(OptionRole role) const {
  const OptionSpecification* option = plugins.dataset.schema.find(role, OptionType::integer);
  if (option == nullptr) return std::nullopt;
  return static_cast<std::int32_t>(plugins.dataset.options.integer(option->name));
}

DataSource RunSetup::open_data() const {
  const ResolvedPlugin<DatasetFactory>& plugin = plugins.dataset;
  const DatasetRequest request{model_sizes, configuration.run.eval_every > 0};
  return with_places(configuration, [&] {
    DataSource source(plugin.origin, inputs, plugin.create("open", [&](const auto& factory) {
      return factory.open(plugin.options, request);
    }));
    if (request.validates && source.samples(DataSplit::validation) == 0) {
      throw PluginError(plugin.origin, "", "", "has no sample for validation; run.eval_every = 0 needs none");
    }
    return source;
  });
}

std::int64_t RunSetup::memory_bytes(const Device& device) const {
  return with_places(configuration, [&] { return device.memory_bytes(); });
}

CommunicatorLimits RunSetup::limits(const World& world) const {
  return with_places(configuration, [&] { return world.limits(); });
}

std::filesystem::path RunSetup::offload_directory(const Program& program) const {
  return program.offload_directory.empty() ? configuration.run.output : program.offload_directory;
}

Options RunSetup::shrunk_model(const ShrinkRequest& request) const {
  const ResolvedPlugin<ModelFactory>& plugin = plugins.model;
  return with_places(configuration, [&] {
    return call_plugin(plugin.origin, "shrink", [&] { return plugin.factory->shrink(plugin.options, request); });
  });
}

std::uint64_t RunSetup::seed() const { return static_cast<std::uint64_t>(configuration.run.seed); }

template <class Call>
auto RunSetup::at_culprit(const Call& call) const {
  try {
    return call();
  } catch (const PluginError& error) {
    throw located(configuration, error);
  } catch (const ConfigurationError& error) {
    throw configuration.error(configuration.model.path, error.what());
  }
}

Compiled RunSetup::compile(const CompileRequest& request, const Compiled* beside) const {
  return at_culprit([&] {
    require_contract(request);
    return host::compile(request, beside);
  });
}

Stages RunSetup::find_stages(const CompileRequest& request) const {
  return at_culprit([&] { return host::find_stages(request); });
}

std::unique_ptr<Device> RunSetup::make_device(const DeviceRequest& request) const {
  const ResolvedPlugin<DeviceFactory>& plugin = plugins.device;
  return with_places(configuration, [&] {
    return guarded_device(
        plugin.create("create", [&](const DeviceFactory& factory) { return factory.create(plugin.options, request); }),
        plugin.origin);
  });
}

std::unique_ptr<Device> RunSetup::make_device(int rank, const World& world) const {
  const DeviceRequest request = with_places(configuration, [&] {
    return DeviceRequest{.kernels = kernels.get(),
                         .rank = rank,
                         .ranks_on_host = world.ranks_on_host(),
                         .index_on_host = world.index_on_host(rank)};
  });
  return make_device(request);
}

std::unique_ptr<Device> RunSetup::make_device(int rank, int ranks) const {
  return make_device({.kernels = kernels.get(), .rank = rank, .ranks_on_host = ranks, .index_on_host = rank});
}

int RunSetup::data_threads(const World& world) const {
  if (configuration.run.data_threads > 0) return static_cast<int>(configuration.run.data_threads);
  const auto local = static_cast<int>(world.local_ranks().size());
  return std::max(1, usable_cores() * local / world.ranks_on_host() / 2);
}

std::unique_ptr<World> RunSetup::make_world(int ranks) const {
  const ResolvedPlugin<CommunicatorFactory>& plugin = plugins.communicator;
  return guarded_world(
      plugin.create("create", [&](const auto& factory) { return factory.create(plugin.options, ranks); }),
      plugin.origin);
}

std::unique_ptr<World> RunSetup::make_world() const {
  const int ranks = stack.mesh.rank_count();
  std::unique_ptr<World> world = with_places(configuration, [&] { return make_world(ranks); });
  const auto local = with_places(configuration, [&] { return world->local_ranks(); });
  if (launched_ranks() > 1 && static_cast<int>(local.size()) == ranks) {
    throw configuration.error(configuration.communicator.path,
                              "found '" + configuration.communicator.plugin +
                                  "', which runs all ranks in one process; accepted for the processes of strata "
                                  "launch: one that joins processes, such as gloo on CPUs and nccl on GPUs");
  }
  return joined_world(std::move(world), [this] { return setup_terms(*this); });
}

RunSetup prepare(RunConfiguration configuration, PluginRegistry& registry,
                 std::shared_ptr<const CheckpointReader> initial) {
  if (!configuration.model_from.empty()) throw VerificationError("the values of model.from were not opened");
  RunSetup setup;
  setup.configuration = std::move(configuration);
  registry.set_hook_limit(setup.configuration.run.watchdog);
  setup.initial = std::move(initial);
  setup.plugins = resolve_plugins(setup.configuration, registry);
  with_places(setup.configuration, [&] {
    provide_vocabulary(setup.plugins, *setup.ops, *setup.kernels);
    const ResolvedPlugin<ModelFactory>& model = setup.plugins.model;
    setup.model = model.create("create", [&](const ModelFactory& factory) { return factory.create(model.options); });
    setup.model_sizes =
        checked_sizes(model.origin, call_plugin(model.origin, "sizes", [&] { return setup.model->sizes(); }));
    const ResolvedPlugin<DatasetFactory>& dataset = setup.plugins.dataset;
    setup.inputs = inputs_of(dataset);
    setup.unit = call_plugin(dataset.origin, "unit", [&] { return dataset.factory->unit(dataset.options); });
    setup.stack = make_stack(make_strategies(setup.plugins));
    setup.optimizer = make_optimizer(setup.configuration, setup.plugins);
  });
  check_batch(setup.configuration, setup.stack.replicas);
  check_shrink(setup);
  return setup;
}

ShrinkingOption find_shrinking_option(const RunSetup& setup) {
  const std::string& axis = setup.configuration.run.shrink.axis;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < setup.stack.axes.size(); ++i) {
    for (const MeshAxis& each : setup.stack.axes[i]) {
      names.push_back(each.name);
      if (each.name != axis) continue;
      const ResolvedPlugin<StrategyFactory>& strategy = setup.plugins.strategies[i];
      const OptionSpecification* size = strategy.schema.find(OptionRole::axis_size, OptionType::integer);
      if (size != nullptr && strategy.options.integer(size->name) == each.size) {
        return {static_cast<std::size_t>(strategy.origin.table), size->name};
      }
      throw setup.configuration.error("run.shrink.axis", "found \"" + axis + "\" of " + strategy.origin.label +
                                                             ", none of whose options gives its ranks; accepted: an "
                                                             "axis whose size is an option, such as `size`");
    }
  }
  throw setup.configuration.error("run.shrink.axis",
                                  "found \"" + axis + "\"; accepted: an axis of the mesh (" +
                                      (names.empty() ? "the configuration has none" : join(names, ", ")) + ")");
}

int ranks_per_process(const RunSetup& setup) {
  const ResolvedPlugin<CommunicatorFactory>& communicator = setup.plugins.communicator;
  const OptionSpecification* option = communicator.schema.find(OptionRole::ranks_per_process, OptionType::integer);
  if (option == nullptr) return 1;
  const std::int64_t count = communicator.options.integer(option->name);
  const int ranks = setup.stack.mesh.rank_count();
  if (count >= 1 && ranks % count == 0) return static_cast<int>(count);
  throw setup.configuration.error(
      setup.configuration.communicator.path + "." + option->name,
      "found " + std::to_string(count) + "; accepted: a divisor of the mesh's " + std::to_string(ranks) + " ranks");
}

LearningRateSchedule weight_decay_schedule(const RunConfiguration& configuration) {
  return {.section = configuration.optimizer.weight_decay_schedule, .lr = 1, .run_steps = configuration.run.steps};
}

LearningRateSchedule learning_rate_schedule(const RunConfiguration& configuration) {
  return {.section = configuration.optimizer.schedule,
          .lr = configuration.optimizer.lr,
          .run_steps = configuration.run.steps};
}

}  // namespace strata::host

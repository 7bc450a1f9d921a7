#include "train/run/run_setup.hpp"

#include <optional>
#include <utility>

#include "compiler/batch_split.hpp"
#include "plugins/guarded_device.hpp"
#include "plugins/guarded_world.hpp"
#include "train/run/launched_process.hpp"
#include "train/run/model_contract.hpp"

namespace strata::host {
namespace {

std::vector<NamedStrategy> make_strategies(const ResolvedPlugins& plugins) {
  std::vector<NamedStrategy> strategies;
  for (const ResolvedPlugin<StrategyFactory>& plugin : plugins.strategies) {
    strategies.push_back({plugin.origin.label,
                          plugin.create("create",
                                        [&](const StrategyFactory& factory) {
                                          return std::shared_ptr<const Strategy>(factory.create(plugin.options));
                                        }),
                          plugin.origin.table});
  }
  return strategies;
}

OptimizerSettings make_optimizer(const RunConfiguration& configuration, const ResolvedPlugins& plugins) {
  const OptimizerSection& section = configuration.optimizer;
  OptimizerSettings settings;
  settings.clip = section.clip;
  settings.clip_value = section.clip_value;
  for (std::size_t i = 0; i < plugins.optimizers.size(); ++i) {
    const ResolvedPlugin<OptimizerFactory>& plugin = plugins.optimizers[i];
    OptimizerGroup group;
    group.origin = plugin.origin;
    group.optimizer = plugin.create("create", [&](const OptimizerFactory& factory) {
      return std::shared_ptr<const Optimizer>(factory.create(plugin.options));
    });
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
  return settings;
}

/// The model's context, which must be at least 1.
std::int64_t context_of(const ResolvedPlugin<ModelFactory>& plugin, const Model& model) {
  const std::int64_t context = call_plugin(plugin.origin, "context", [&] { return model.context(); });
  if (context < 1) {
    throw PluginError(plugin.origin, "context", "",
                      "its context is " + std::to_string(context) + " tokens; accepted: 1 or more");
  }
  return context;
}

void check_batch(const RunConfiguration& configuration, std::int64_t replicas) {
  try {
    static_cast<void>(split_batch(configuration.batch.global, configuration.batch.micro, replicas));
  } catch (const OptionError& error) {
    throw configuration.error("batch." + error.option(), error.what());
  }
}

}  // namespace

std::int64_t RunSetup::vocab(const Vocabulary& data) const {
  const std::optional<std::int64_t> needed = token_count(data);
  const std::optional<std::int64_t> given = model_vocab();
  if (!needed && !given) {
    throw configuration.error("model", "found no size of the vocabulary; data of tokens need a model that has one");
  }
  if (needed && given && *given < *needed) {
    throw configuration.error("model", "found a vocabulary of " + std::to_string(*given) + "; accepted: at least " +
                                           std::to_string(*needed) + ", as many as the data has");
  }
  return given ? *given : *needed;
}

CompileRequest RunSetup::request(GraphMode mode, std::int64_t vocab) const {
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
  request.vocab = vocab;
  request.optimizer = optimizer;
  return request;
}

std::optional<std::int64_t> RunSetup::model_vocab() const {
  return with_places(configuration,
                     [&] { return call_plugin(plugins.model.origin, "vocab", [&] { return model->vocab(); }); });
}

std::int64_t RunSetup::memory_bytes(const Device& device) const {
  return with_places(configuration, [&] { return device.memory_bytes(); });
}

CommunicatorLimits RunSetup::limits(const World& world) const {
  return with_places(configuration, [&] { return world.limits(); });
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
    require_model_contract(*this, request);
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

std::unique_ptr<World> RunSetup::make_world() const {
  const ResolvedPlugin<CommunicatorFactory>& plugin = plugins.communicator;
  const int ranks = stack.mesh.rank_count();
  std::unique_ptr<World> world = with_places(configuration, [&] {
    return guarded_world(
        plugin.create("create",
                      [&](const CommunicatorFactory& factory) { return factory.create(plugin.options, ranks); }),
        plugin.origin);
  });
  const auto local = with_places(configuration, [&] { return world->local_ranks(); });
  if (launched_ranks() > 1 && static_cast<int>(local.size()) == ranks) {
    throw configuration.error(configuration.communicator.path,
                              "found '" + configuration.communicator.plugin +
                                  "', which runs all ranks in one process; accepted for the processes of strata "
                                  "launch: one that joins processes, such as nccl");
  }
  return world;
}

RunSetup prepare(RunConfiguration configuration, PluginRegistry& registry) {
  RunSetup setup;
  setup.configuration = std::move(configuration);
  setup.plugins = resolve_plugins(setup.configuration, registry);
  with_places(setup.configuration, [&] {
    provide_vocabulary(setup.plugins, *setup.ops, *setup.kernels);
    const ResolvedPlugin<ModelFactory>& model = setup.plugins.model;
    setup.model = model.create("create", [&](const ModelFactory& factory) { return factory.create(model.options); });
    setup.context = context_of(model, *setup.model);
    setup.stack = make_stack(make_strategies(setup.plugins));
    setup.optimizer = make_optimizer(setup.configuration, setup.plugins);
  });
  check_batch(setup.configuration, setup.stack.replicas);
  return setup;
}

Corpus open_data(const RunConfiguration& configuration, std::int64_t context) {
  const DataSection& section = configuration.data;
  DataSettings settings;
  settings.path = section.path;
  settings.format = section.format == DataFormat::tokens ? DataSettings::Format::tokens : DataSettings::Format::text;
  settings.tokenizer =
      section.tokenizer == TokenizerKind::chars ? Vocabulary::Kind::characters : Vocabulary::Kind::bytes;
  settings.validation = section.validation;
  try {
    Corpus corpus(settings);
    corpus.require_window(corpus.training(), context, "training");
    if (configuration.run.eval_every > 0) {
      corpus.require_window(corpus.validation(), context, "validation");
    }
    return corpus;
  } catch (const ConfigurationError& error) {
    throw configuration.error("data.path", error.what());
  }
}

LearningRateSchedule learning_rate_schedule(const RunConfiguration& configuration) {
  return {.section = configuration.optimizer.schedule,
          .lr = configuration.optimizer.lr,
          .run_steps = configuration.run.steps};
}

}  // namespace strata::host

#include "train/run/run_setup.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "train/run/launched_process.hpp"

namespace strata::host {
namespace {

std::vector<NamedStrategy> make_strategies(const RunConfiguration& configuration, const ResolvedPlugins& plugins) {
  std::vector<NamedStrategy> strategies;
  for (std::size_t i = 0; i < plugins.strategies.size(); ++i) {
    const ResolvedPlugin<StrategyFactory>& plugin = plugins.strategies[i];
    strategies.push_back({"strategy " + std::to_string(i + 1) + " '" + plugin.name + "'",
                          with_place(configuration, configuration.strategies[i],
                                     [&] { return plugin.factory->create(plugin.options); })});
  }
  return strategies;
}

/// The ops of Strata, of the model and of the strategies; a plugin that is used twice brings its own once.
std::unique_ptr<OpRegistry> make_ops(const ResolvedPlugins& plugins) {
  auto ops = std::make_unique<OpRegistry>();
  register_core_ops(*ops);
  plugins.model.factory->register_ops(*ops);
  std::set<const StrategyFactory*> done;
  for (const auto& plugin : plugins.strategies) {
    if (done.insert(plugin.factory).second) plugin.factory->register_ops(*ops);
  }
  return ops;
}

void check_batch(const RunConfiguration& configuration, std::int64_t replicas) {
  const auto [global, micro] = configuration.batch;
  if (global % (micro * replicas) == 0) return;
  throw configuration.error("batch.global", "found " + std::to_string(global) + "; accepted: a multiple of " +
                                                std::to_string(micro * replicas) + ", which is batch.micro (" +
                                                std::to_string(micro) + ") times the number of replicas (" +
                                                std::to_string(replicas) + ")");
}

/// The compiler knows no configuration: its message, with the place of the strategy or device that it names, or else of
/// the model. What a strategy says itself comes after its name and a colon, and may begin with one of its options.
ConfigurationError at_culprit(const RunSetup& setup, const std::string& message) {
  const RunConfiguration& configuration = setup.configuration;
  for (std::size_t i = 0; i < setup.strategies.size(); ++i) {
    const auto& [name, strategy] = setup.strategies[i];
    if (message.starts_with(name + ": ")) {
      return at_section(configuration, configuration.strategies[i], message.substr(name.size() + 2));
    }
    const std::vector<MeshAxis> axes = strategy->axes();
    const bool named = message.starts_with(name) || std::any_of(axes.begin(), axes.end(), [&](const MeshAxis& axis) {
                         return message.starts_with("mesh axis '" + axis.name + "'");
                       });
    if (named) return configuration.error(configuration.strategies[i].path, message);
  }
  if (message.starts_with("the device")) return configuration.error(configuration.device.path, message);
  return at_section(configuration, configuration.model, message);
}

}  // namespace

std::int64_t RunSetup::vocab(const Vocabulary& data) const {
  const std::optional<std::int64_t> needed = token_count(data);
  const std::optional<std::int64_t> given = model->vocab();
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
  request.strategies = strategies;
  request.registry = ops.get();
  request.mode = mode;
  request.float_type = float_type;
  request.global_batch = configuration.batch.global;
  request.micro_batch = configuration.batch.micro;
  request.vocab = vocab;
  request.optimizer = optimizer_settings(configuration.optimizer);
  request.seed = static_cast<std::uint64_t>(configuration.run.seed);
  return request;
}

Compiled RunSetup::compile(const CompileRequest& request, const Compiled* beside) const {
  try {
    return host::compile(request, beside);
  } catch (const ConfigurationError& error) {
    throw at_culprit(*this, error.what());
  }
}

Stages RunSetup::find_stages(const CompileRequest& request) const {
  try {
    return host::find_stages(request);
  } catch (const ConfigurationError& error) {
    throw at_culprit(*this, error.what());
  }
}

std::unique_ptr<Device> RunSetup::make_device(int rank, const World& world) const {
  const DeviceRequest request{rank, world.ranks_on_host(), world.index_on_host(rank)};
  return with_place(configuration, configuration.device,
                    [&] { return plugins.device.factory->create(plugins.device.options, request); });
}

std::unique_ptr<Device> RunSetup::make_device(int rank, int ranks) const {
  return with_place(configuration, configuration.device, [&] {
    return plugins.device.factory->create(plugins.device.options, {rank, ranks, rank});
  });
}

std::unique_ptr<World> RunSetup::make_world() const {
  std::unique_ptr<World> world = with_place(configuration, configuration.communicator, [&] {
    return plugins.communicator.factory->create(plugins.communicator.options, mesh.rank_count());
  });
  const bool all_here = static_cast<int>(world->local_ranks().size()) == mesh.rank_count();
  if (launched_ranks() > 1 && all_here) {
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
  RunConfiguration& resolved = setup.configuration;
  setup.plugins = resolve_plugins(resolved, registry);
  setup.ops = make_ops(setup.plugins);
  setup.model = with_place(resolved, resolved.model,
                           [&] { return setup.plugins.model.factory->create(setup.plugins.model.options); });
  setup.strategies = make_strategies(resolved, setup.plugins);
  try {
    setup.mesh = build_mesh(setup.strategies);
    setup.replicas = replica_count(setup.strategies);
  } catch (const ConfigurationError& error) {
    throw at_culprit(setup, error.what());
  }
  check_batch(resolved, setup.replicas);
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

OptimizerSettings optimizer_settings(const OptimizerSection& section) {
  OptimizerSettings settings;
  settings.kind = section.kind == OptimizerKind::sgd ? OptimizerSettings::Kind::sgd : OptimizerSettings::Kind::adamw;
  settings.beta1 = section.beta1;
  settings.beta2 = section.beta2;
  settings.epsilon = section.epsilon;
  settings.momentum = section.momentum;
  settings.weight_decay = section.weight_decay;
  settings.clip = section.clip;
  return settings;
}

LearningRateSchedule learning_rate_schedule(const RunConfiguration& configuration) {
  const ScheduleSection& section = configuration.optimizer.schedule;
  LearningRateSchedule schedule;
  if (section.kind == ScheduleKind::warmup) schedule.kind = LearningRateSchedule::Kind::warmup;
  if (section.kind == ScheduleKind::warmup_cosine) schedule.kind = LearningRateSchedule::Kind::warmup_cosine;
  schedule.lr = configuration.optimizer.lr;
  schedule.min_lr = section.min_lr;
  schedule.warmup = section.warmup;
  if (section.warmup_type == WarmupType::logarithmic) schedule.warmup_type = LearningRateSchedule::Warmup::logarithmic;
  schedule.steps = configuration.run.steps;
  return schedule;
}

}  // namespace strata::host

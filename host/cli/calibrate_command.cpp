#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "calibration/calibration.hpp"
#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "cluster/cluster_file.hpp"
#include "config/sections.hpp"
#include "files/file_io.hpp"
#include "files/progress_bar.hpp"
#include "files/text_format.hpp"
#include "huggingface/initial_values.hpp"
#include "loading/plugin_call.hpp"
#include "loading/resolved_plugins.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr double kLeastSeconds = 1;
constexpr double kMostSeconds = 36000;
constexpr double kMicro = 1e-6;

struct CalibrateArguments {
  std::string output;
  std::string device;
  std::string communicator;
  std::vector<std::string> runs;
  std::optional<std::int64_t> vocab;
  double seconds = CalibrationSettings().seconds;
};

/// The plugin that a section names by default.
std::string default_plugin(const std::string& section) {
  return std::get<std::string>(section_declaration(section).schema.find("plugin")->default_value.value());
}

/// A loaded plugin with default options.
template <class Factory>
ResolvedPlugin<Factory> load_plugin(PluginRegistry& registry, const std::string& name) {
  ResolvedPlugin<Factory> plugin;
  plugin.origin = origin_of(kKindOf<Factory>, name);
  plugin.factory = &registry.load<Factory>(name);
  plugin.options = default_options(declared_options(plugin.origin, *plugin.factory));
  return plugin;
}

OptimizerSettings default_optimizer(PluginRegistry& registry) {
  const auto plugin = load_plugin<OptimizerFactory>(registry, default_plugin("optimizer"));
  OptimizerGroup group;
  group.origin = plugin.origin;
  group.optimizer = plugin.create("create", [&](const auto& factory) { return factory.create(plugin.options); });
  group.parameters = {"*"};
  OptimizerSettings settings;
  settings.groups = {std::move(group)};
  return settings;
}

/// f32, and the types in which some strategy can make a model compute.
std::vector<SamplePrecision> precisions(PluginRegistry& registry) {
  std::vector<SamplePrecision> all{{"f32"}};
  for (const PluginDescription& each : registry.acceptable(PluginKind::strategy)) {
    auto plugin = load_plugin<StrategyFactory>(registry, each.name);
    const OptionSpecification* type = plugin.factory->options().find(OptionRole::compute_type, OptionType::word);
    if (type == nullptr) continue;
    for (const std::string& choice : type->choices) {
      if (choice == all.front().name) continue;
      plugin.options.set(type->name, OptionValue(choice));
      all.push_back({choice, {{plugin.origin.label, plugin.create("create", [&](const auto& factory) {
                                 return factory.create(plugin.options);
                               })}}});
    }
    break;
  }
  return all;
}

/// The machine with plugins and default options. All arguments outlive it.
CalibratedMachine machine_of(const ResolvedPlugin<DeviceFactory>& device,
                             const ResolvedPlugin<CommunicatorFactory>& communicator, const KernelRegistry& kernels) {
  CalibratedMachine machine;
  machine.make_device = [&](int rank, int ranks) -> std::shared_ptr<Device> {
    const DeviceRequest request{.kernels = &kernels, .rank = rank, .ranks_on_host = ranks, .index_on_host = rank};
    return guarded_device(
        device.create("create", [&](const auto& factory) { return factory.create(device.options, request); }),
        device.origin);
  };
  machine.make_world = [&](int ranks) {
    return guarded_world(
        communicator.create("create", [&](const auto& factory) { return factory.create(communicator.options, ranks); }),
        communicator.origin);
  };
  return machine;
}

/// The machine as a run uses it, which outlives it.
CalibratedMachine machine_of(const RunSetup& run) {
  return {[&run](int rank, int ranks) { return run.make_device(rank, ranks); },
          [&run](int ranks) { return run.make_world(ranks); }};
}

void print_summary(std::ostream& out, const Cluster& cluster, const std::string& output) {
  const DeviceDescription& device = cluster.groups.front().device;
  for (const auto& [type, rate] : device.peak_flops) {
    out << fmt::format("products in {:<4}  {}FLOP/s\n", to_string(type), short_number(rate));
  }
  out << fmt::format("memory            {}B/s\n", short_number(device.memory_bandwidth));
  if (!cluster.levels.empty()) {
    out << fmt::format("between ranks     {}B/s, {:.1f} µs a message\n", short_number(cluster.levels[0].bandwidth),
                       cluster.levels[0].latency / kMicro);
  }
  out << fmt::format("{} measured times in {}\n", device.points.size(), output);
}

Cluster calibrate_and_write(const CalibratedMachine& machine, CalibrationSettings& settings,
                            const CalibrateArguments& arguments, CommandContext& context) {
  settings.name = std::filesystem::path(arguments.output).stem().string();
  settings.seconds = arguments.seconds;
  settings.vocab = arguments.vocab;
  Cluster cluster;
  {
    ProgressBar bar(context.messages);
    settings.progress = [&](double share, const std::string& text) { bar.show(share, text); };
    cluster = calibrate(machine, settings);
    bar.show(1, "measured");
  }
  const std::string of = machine.make_device(0, 1)->description();
  write_named_file(arguments.output,
                   to_toml(cluster, {"Measured by strata calibrate at " + utc_time() + ".", of + "."}));
  print_summary(context.out, cluster, arguments.output);
  return cluster;
}

int calibrate_for(const CalibrateArguments& arguments, CommandContext& context) {
  std::vector<RunSetup> runs;
  CalibrationSettings settings;
  for (const std::string& path : arguments.runs) {
    runs.push_back(prepare_run(load_configuration(path, {}), context.plugins()));
    const PluginSection& device = runs.back().configuration.device;
    const PluginSection& first = runs.front().configuration.device;
    if (device.plugin == first.plugin && device.options == first.options) continue;
    throw runs.back().configuration.error(
        device.path, "found another device than in '" + arguments.runs.front() + "'; accepted: runs of one device");
  }
  for (const RunSetup& run : runs) settings.runs.push_back(&run);
  calibrate_and_write(machine_of(runs.front()), settings, arguments, context);
  return 0;
}

int calibrate(const CalibrateArguments& arguments, CommandContext& context) {
  require_named_file(arguments.output);
  if (!arguments.runs.empty()) return calibrate_for(arguments, context);
  PluginRegistry& registry = context.plugins();
  const auto device =
      load_plugin<DeviceFactory>(registry, arguments.device.empty() ? default_plugin("device") : arguments.device);
  const auto communicator = load_plugin<CommunicatorFactory>(
      registry, arguments.communicator.empty() ? default_plugin("communicator") : arguments.communicator);
  const InstalledVocabulary vocabulary = installed_vocabulary(registry);
  CalibrationSettings settings;
  settings.ops = &vocabulary.ops;
  settings.optimizer = default_optimizer(registry);
  settings.precisions = precisions(registry);
  calibrate_and_write(machine_of(device, communicator, vocabulary.kernels), settings, arguments, context);
  return 0;
}

}  // namespace

void add_calibrate_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<CalibrateArguments>(
      app, context, "calibrate", "Measure this machine, and write it as a cluster file for --cluster", calibrate);
  command->add_option("OUT", arguments->output, "The file to write, such as node.toml")->required();
  CLI::Option* runs =
      command
          ->add_option("--for", arguments->runs,
                       "Time exactly the kernels of this configuration, instead of those of sample models; repeatable")
          ->type_name("CONFIG")
          ->allow_extra_args(false)
          ->check(CLI::ExistingFile);
  command->add_option("--device", arguments->device, "The device plugin, default " + default_plugin("device"))
      ->type_name("NAME")
      ->excludes(runs);
  command
      ->add_option("--communicator", arguments->communicator,
                   "The communicator plugin, default " + default_plugin("communicator") +
                       ". If it joins processes, collectives are not measured")
      ->type_name("NAME")
      ->excludes(runs);
  command
      ->add_option("--vocab", arguments->vocab, "Number of different tokens, with --for; the data is then not opened")
      ->type_name("N")
      ->needs(runs)
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--seconds", arguments->seconds, "How long to measure, default 120; longer measures larger shapes")
      ->type_name("S")
      ->check(number_between(kLeastSeconds, kMostSeconds));
}

}  // namespace strata::host

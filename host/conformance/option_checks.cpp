#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "config/sections.hpp"
#include "conformance/check.hpp"
#include "conformance/stack_proof.hpp"
#include "conformance/subject.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"
#include "train/training_programs.hpp"

namespace strata::host {
namespace {

/// What an object that a factory created says about itself, by its hooks. Calls for one object give equal texts.
using Description = std::function<std::string()>;

std::string to_text(const DimSizes& sizes) {
  std::string text;
  for (const auto& [dim, size] : sizes) text += dim + "=" + std::to_string(size) + " ";
  return text;
}

/// Creates an object by the factory. `text`: what it says about itself, by its `hook`.
template <class Factory, class Create, class Text>
Description described(Subject& subject, const Create& create, const char* hook, Text text) {
  return [origin = subject.origin(), hook, text,
          object = create_by_plugin(subject.origin(), "create", [&] { return create(subject.factory<Factory>()); })] {
    return call_plugin(origin, hook, [&] { return text(*object); });
  };
}

Description create_strategy(Subject& subject, const Options& options) {
  return described<StrategyFactory>(
      subject, [&](const auto& factory) { return factory.create(options); }, "axes",
      [](const Strategy& strategy) {
        std::string text;
        for (const MeshAxis& axis : strategy.axes()) text += axis.name + "=" + std::to_string(axis.size) + " ";
        for (const Rule& rule : strategy.rules()) {
          text += rule.dim + ">" + rule.axis + " " + std::to_string(rule.priority) + " ";
        }
        if (const auto* hooks = dynamic_cast<const ReplicaHooks*>(&strategy)) {
          text += join(hooks->unsynchronized_axes(), " ");
        }
        if (const auto* hooks = dynamic_cast<const GradientHooks*>(&strategy)) {
          text += join(hooks->self_reduced_axes(), " ");
        }
        return text;
      });
}

Description create_model(Subject& subject, const Options& options) {
  return described<ModelFactory>(
      subject, [&](const auto& factory) { return factory.create(options); }, "sizes",
      [](const Model& model) { return to_text(model.sizes()); });
}

Description create_optimizer(Subject& subject, const Options& options) {
  return described<OptimizerFactory>(
      subject, [&](const auto& factory) { return factory.create(options); }, "states",
      [](const Optimizer& optimizer) {
        const ParameterDescription matrix{
            .name = "matrix", .dims = {"embed", "ffn"}, .contracted = {"embed"}, .elements = 12, .shape = {3, 4}};
        std::string text;
        for (const OptimizerState& state : optimizer.states(matrix)) text += state.name + " ";
        return text + (optimizer.wants_own_bucket() ? "alone" : "");
      });
}

Description create_communicator(Subject& subject, const Options& options) {
  constexpr int kRanks = 2;
  return described<CommunicatorFactory>(
      subject, [&](const auto& factory) { return factory.create(options, kRanks); }, "local_ranks",
      [](const World& world) {
        std::string text = std::to_string(world.rank_count());
        for (const int rank : world.local_ranks()) text += " " + std::to_string(rank);
        return text + " " + std::to_string(world.limits().channel_capacity);
      });
}

Description create_dataset(Subject& subject, const Options& options) {
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
  return describe;
}

/// A device with the kernels that it needs.
struct DeviceWithKernels {
  OpRegistry ops;
  KernelRegistry kernels;
  std::shared_ptr<Device> device;
};

Description create_device(Subject& subject, const Options& options) {
  const PluginOrigin origin = subject.origin();
  const DeviceFactory& factory = subject.factory<DeviceFactory>();
  const auto made = std::make_shared<DeviceWithKernels>();
  register_core(made->ops, made->kernels);
  Registration registration(made->ops, made->kernels, origin.label);
  call_plugin(origin, "provide", [&] { factory.provide(registration, options); });
  const DeviceRequest request{.kernels = &made->kernels};
  made->device = create_by_plugin(origin, "create", [&] { return factory.create(options, request); });
  return [made, origin] {
    return call_plugin(origin, "description", [&] {
      return made->device->description() + (made->device->is_host_memory() ? " host" : " device");
    });
  };
}

Description create_library(Subject& subject, const Options& options) {
  const PluginOrigin origin = subject.origin();
  OpRegistry ops;
  KernelRegistry kernels;
  register_core(ops, kernels);
  Registration registration(ops, kernels, origin.label);
  call_plugin(origin, "provide", [&] { subject.factory<LibraryFactory>().provide(registration, options); });
  const std::string text = join(ops.names(), " ") + join(kernels.ops(), " ");
  return [text] { return text; };
}

/// Creates what a run with these options would: a strategy, a model, the ranks of a communicator, …; for a dataset its
/// inputs, because its files may be absent; for a library its ops. The description owns the object. \throws what the
/// plugin throws, and PluginError if it creates nothing.
Description create_object(Subject& subject, const Options& options) {
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
  return {};
}

/// The schema, copied, so that a factory that changes it is found.
OptionSchema schema_of(Subject& subject) {
  const PluginFactory& factory = subject.factory();
  return call_plugin(subject.origin(), "options", [&] { return factory.options(); });
}

void require_sound_option(const OptionSchema& schema, const OptionSpecification& option,
                          const std::vector<std::string>& keys, const std::string& section) {
  const std::string what = "option '" + option.name + "' ";
  if (option.name.empty()) throw CheckFailed("an option has no name");
  if (contains(keys, option.name)) {
    throw CheckFailed(what + "is a key of [" + section + "] already");
  }
  if (option.documentation.find_first_not_of(' ') == std::string::npos) throw CheckFailed(what + "is not documented");
  if (option.minimum && option.maximum && *option.minimum > *option.maximum) {
    throw CheckFailed(what + "has an empty range");
  }
  if (!option.default_value) return;
  try {
    static_cast<void>(schema.checked(option, *option.default_value));
  } catch (const ConfigurationError& error) {
    throw CheckFailed(what + "has a default that it does not accept: " + error.what());
  }
}

/// Values at the edges of what an option accepts, and some that many plugins will not accept.
std::vector<OptionValue> edges_of(const OptionSpecification& option) {
  std::vector<OptionValue> values;
  const auto numbers = [&](double lowest, double highest) {
    return std::vector<double>{option.minimum.value_or(lowest), option.maximum.value_or(highest)};
  };
  switch (option.type) {
    case OptionType::boolean:
      return {OptionValue(false), OptionValue(true)};
    case OptionType::integer:
      for (const double each : numbers(-1, 1e18)) values.emplace_back(static_cast<std::int64_t>(each));
      if (!option.minimum) values.emplace_back(std::int64_t{0});
      return values;
    case OptionType::number:
      for (const double each : numbers(-1e300, 1e300)) values.emplace_back(each);
      return values;
    case OptionType::word:
      for (const std::string& choice : option.choices) values.emplace_back(choice);
      if (option.choices.empty()) values = {OptionValue(std::string()), OptionValue(std::string("/no/such\n\xff"))};
      return values;
    case OptionType::numbers:
      return {OptionValue(std::vector<double>{}), OptionValue(numbers(-1e300, 1e300)),
              OptionValue(std::vector<double>(9, option.minimum.value_or(0)))};
    case OptionType::words:
      return {OptionValue(std::vector<std::string>{}), OptionValue(std::vector<std::string>{"", "no such word", ""})};
  }
  return values;
}

/// Creates an object with one unusual value. The plugin may refuse it by a ConfigurationError.
void try_value(Subject& subject, const OptionSchema& schema, Options options, const OptionSpecification& option,
               const OptionValue& value) {
  const std::string what = option.name + " = " + to_string(value) + ": ";
  try {
    options.set(option.name, schema.checked(option, value));
  } catch (const ConfigurationError&) {
    return;  // The host refuses it.
  }
  try {
    static_cast<void>(create_object(subject, options)());
  } catch (const PluginError& error) {
    if (is_hook_failure(error.what())) throw CheckFailed(what + error.message());
    if (!error.option().empty() && schema.find(error.option()) == nullptr) {
      throw CheckFailed(what + "the refusal names the option '" + error.option() + "', which does not exist");
    }
  } catch (const ConfigurationError&) {
    // A refusal.
  } catch (...) {
    throw CheckFailed(what + "found " + current_exception_text() + "; accepted: an OptionError");
  }
}

/// The options of the plugin, except that required ones may be absent.
Options present_options(Subject& subject) {
  try {
    return subject.options();
  } catch (const CheckSkipped&) {
    Options options;
    for (const OptionSpecification& option : subject.factory().options().options()) {
      if (option.default_value)
        options.set(option.name, *option.default_value);
      else
        options.set(option.name, edges_of(option).back());
    }
    return options;
  }
}

std::string check_options(Subject& subject) {
  const OptionSchema schema = schema_of(subject);
  const std::string section = section_name(subject.kind());
  const std::vector<std::string> keys = known_keys(section);
  std::set<std::string> names;
  for (const OptionSpecification& option : schema.options()) {
    require_sound_option(schema, option, keys, section);
    if (!names.insert(option.name).second) throw CheckFailed("there are two options '" + option.name + "'");
  }
  return std::to_string(names.size()) + " options";
}

std::string check_creation(Subject& subject) {
  const Options options = subject.options();
  try {
    static_cast<void>(create_object(subject, options)());
  } catch (const ConfigurationError& error) {
    const bool needs_machine = subject.kind() == PluginKind::device || subject.kind() == PluginKind::communicator;
    if (needs_machine && !is_hook_failure(error.what())) {
      throw CheckSkipped(std::string("this machine lacks what it needs: ") + error.what());
    }
    throw;
  }
  return "";
}

std::string check_bad_options(Subject& subject) {
  const OptionSchema schema = schema_of(subject);
  const Options options = present_options(subject);
  int tried = 0;
  for (const OptionSpecification& option : schema.options()) {
    for (const OptionValue& value : edges_of(option)) {
      try_value(subject, schema, options, option, value);
      ++tried;
    }
  }
  return std::to_string(tried) + " values";
}

std::string check_independence(Subject& subject) {
  const Options options = subject.options();
  const OptionSchema schema = schema_of(subject);
  const auto first = create_object(subject, options);
  const std::string before = first();
  for (const OptionVariants& varied : variants_of(schema, options)) {
    for (const OptionValue& value : varied.values) {
      Options other = options;
      other.set(varied.name, value);
      try {
        static_cast<void>(create_object(subject, other)());
      } catch (const ConfigurationError&) {
        // A refused combination. Others follow.
      }
    }
  }
  {
    const auto second = create_object(subject, options);
    if (second() != before) {
      throw CheckFailed("two objects with equal options differ: found '" + second() + "' after '" + before + "'");
    }
  }
  if (first() != before) {
    throw CheckFailed("an object changes when another one is created or destroyed: found '" + first() + "'; it was '" +
                      before + "'");
  }
  return "";
}

std::string check_small_run(Subject& subject) {
  const RunConfiguration& configuration = subject.configuration();
  const RunSetup setup = prepare(configuration, subject.plugins());
  // A dataset may have other inputs than the small run's model reads.
  if (subject.kind() == PluginKind::dataset && !subject.has_configuration()) return "prepared";
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  const TrainingPrograms programs = compile_training(setup, setup.sizes_without_data(), device.get());
  const auto fault = find_fault(programs, setup.limits(*setup.make_world()), setup.memory_bytes(*device));
  if (fault) throw CheckFailed(*fault);
  return std::to_string(setup.stack.mesh.rank_count()) + " ranks compiled";
}

}  // namespace

std::vector<Check> option_checks() {
  return {
      {"P05", "Options have unique names, documentation, and defaults that they accept.",
       "Configurations are refused, or mean something else than the help says.", check_options, true},
      {"P06", "The plugin creates its object from its defaults.", "The shortest configuration does not run.",
       check_creation},
      {"P07", "Unusual values of options are accepted or refused by an OptionError, which names an option.",
       "A typing mistake ends in a crash, or in a message that does not say what to change.", check_bad_options},
      {"P08", "Two objects with equal options are equal, and do not change each other.",
       "A run with two of them, or a second run in one process, trains something else.", check_independence},
      {"P09", "A small run with the plugin compiles, and its check before the run finds no fault.",
       "Every run ends before its first step.", check_small_run},
  };
}

}  // namespace strata::host

#include <algorithm>
#include <limits>
#include <set>

#include "config/sections.hpp"
#include "conformance/checks.hpp"
#include "conformance/created_object.hpp"
#include "conformance/stack_proof.hpp"
#include "strata/error.hpp"
#include "train/training_programs.hpp"

namespace strata::host {
namespace {

/// The schema, copied, so that a factory that changes it is found.
OptionSchema schema_of(Subject& subject) {
  const PluginFactory& factory = subject.factory();
  return call_plugin(subject.origin(), "options", [&] { return factory.options(); });
}

void require_sound_option(const OptionSchema& schema, const OptionSpecification& option,
                          const std::vector<std::string>& keys, const std::string& section) {
  const std::string what = "option '" + option.name + "' ";
  if (option.name.empty()) throw CheckFailed("an option has no name");
  if (std::find(keys.begin(), keys.end(), option.name) != keys.end()) {
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
    static_cast<void>(create_object(subject, options)->describe());
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

}  // namespace

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
    static_cast<void>(create_object(subject, options)->describe());
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
  const std::string before = first->describe();
  for (const OptionVariants& varied : variants_of(schema, options)) {
    for (const OptionValue& value : varied.values) {
      Options other = options;
      other.set(varied.name, value);
      try {
        static_cast<void>(create_object(subject, other)->describe());
      } catch (const ConfigurationError&) {
        // A refused combination. Others follow.
      }
    }
  }
  {
    const auto second = create_object(subject, options);
    if (second->describe() != before) {
      throw CheckFailed("two objects with equal options differ: found '" + second->describe() + "' after '" + before +
                        "'");
    }
  }
  if (first->describe() != before) {
    throw CheckFailed("an object changes when another one is created or destroyed: found '" + first->describe() +
                      "'; it was '" + before + "'");
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

}  // namespace strata::host

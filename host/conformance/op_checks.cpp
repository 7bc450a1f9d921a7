#include <algorithm>
#include <set>

#include "conformance/check.hpp"
#include "conformance/op_examples.hpp"
#include "conformance/subject.hpp"
#include "loading/resolved_plugins.hpp"
#include "strata/registration.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

constexpr const char* kReferenceDevice = "reference";

/// The ops and kernels of Strata, of the plugin under test, and of all other installed plugins.
struct KnownVocabulary {
  OpRegistry ops;
  KernelRegistry kernels;
  /// The origin of what the plugin under test registers.
  std::string origin;

  explicit KnownVocabulary(Subject& subject) : origin(subject.origin().label) {
    register_core(ops, kernels);
    const PluginFactory& own = subject.factory();
    const Options options = subject.options();
    Registration registration(ops, kernels, origin);
    call_plugin(subject.origin(), "provide", [&] { own.provide(registration, options); });
    for (const PluginDescription& plugin : subject.plugins().acceptable()) {
      const bool is_own = plugin.kind == subject.kind() && plugin.name == subject.name();
      if (!is_own) add_neighbour(subject.plugins(), plugin);
    }
  }

  [[nodiscard]] std::vector<std::string> own_ops() const {
    std::vector<std::string> names;
    for (const std::string& name : ops.names()) {
      if (ops.origin(name) == origin) names.push_back(name);
    }
    return names;
  }
  [[nodiscard]] std::vector<const RegisteredKernel*> own_kernels() const {
    std::vector<const RegisteredKernel*> found;
    for (const std::string& op : kernels.ops()) {
      for (const auto& kernel : kernels.all(op)) {
        if (kernel->origin == origin) found.push_back(kernel.get());
      }
    }
    return found;
  }

 private:
  void add_neighbour(PluginRegistry& plugins, const PluginDescription& description) {
    try {
      const PluginFactory& factory = plugins.load(description.kind, description.name);
      Registration registration(ops, kernels, description.name);
      factory.provide(registration, default_options(factory.options()));
    } catch (...) {
      // A faulty neighbour is not the plugin under test.
    }
  }
};

std::unique_ptr<Device> make_device(PluginRegistry& plugins, const std::string& name, const KernelRegistry& kernels) {
  const DeviceFactory& factory = plugins.load<DeviceFactory>(name);
  return factory.create(Options(factory.options(), {}), {.kernels = &kernels});
}

/// The device whose kernels are compared: the one of the run, or `cpu` in place of `reference`.
std::string compared_device(Subject& subject) {
  const std::string& configured = subject.configuration().device.plugin;
  if (configured != kReferenceDevice || subject.kind() == PluginKind::device) return configured;
  return subject.plugins().find(PluginKind::device, "cpu") != nullptr ? "cpu" : configured;
}

void require_right(const GradientCheck& check) {
  if (check.holds()) return;
  throw CheckFailed("the gradient of op '" + check.op + "' for operand " + std::to_string(check.operand) + " " +
                    check.operand_type + ": " +
                    (check.fault.empty() ? "relative difference " + std::to_string(check.error) : check.fault));
}

void require_right(const KernelCheck& check) {
  if (check.holds()) return;
  throw CheckFailed("the kernel of op '" + check.op + "', " + check.types + ": " +
                    (check.fault.empty() ? std::to_string(check.error) + " times what rounding explains; " + check.worst
                                         : check.fault));
}

/// The configurations of the run whose kernels are compared: as it is, and in each type that an installed strategy
/// computes in. For a device, also with each installed strategy, whose programs have ops of their own.
std::vector<RunConfiguration> runs_in_all_types(Subject& subject) {
  std::vector<RunConfiguration> runs = {subject.configuration()};
  const auto add = [&](const PluginSection& strategy) {
    RunConfiguration run = subject.configuration();
    run.strategies.push_back(strategy);
    number_strategies(run);
    runs.push_back(std::move(run));
  };
  for (PluginSection& each : installed_strategies(subject.plugins(), subject.name())) {
    const OptionSchema& schema = subject.plugins().load<StrategyFactory>(each.plugin).options();
    const OptionSpecification* compute = schema.find(OptionRole::compute_type, OptionType::word);
    if (compute == nullptr) {
      if (subject.kind() == PluginKind::device) add(each);
      continue;
    }
    for (const std::string& type : compute->choices) {
      if (type == "f32") continue;
      each.options[compute->name] = type;
      add(each);
    }
  }
  return runs;
}

std::string missing(const std::vector<std::string>& names, const std::set<std::string>& covered) {
  std::vector<std::string> rest;
  for (const std::string& name : names) {
    if (!covered.contains(name)) rest.push_back(name);
  }
  return rest.empty() ? ""
                      : "; without an instance: " + joined_lines(rest) + " (a --config whose model uses them helps)";
}

/// Compares the kernels that a run launches, and those that guessed examples launch.
class KernelSurvey {
 public:
  KernelSurvey(Subject& subject, const KnownVocabulary& vocabulary)
      : subject_(subject), vocabulary_(vocabulary), device_(compared_device(subject)) {}

  void run_configurations() {
    for (const RunConfiguration& run : runs_in_all_types(subject_)) {
      try {
        const OpVerification found = verify_ops(run, subject_.plugins(), {.full = true, .device = device_});
        for (const KernelCheck& check : found.kernels) add(check);
      } catch (const ConfigurationError&) {
        // A stack that is refused. Another check reports it.
        if (run.strategies.size() == subject_.configuration().strategies.size()) throw;
      }
    }
  }

  void run_examples() {
    const std::shared_ptr<Device> device = make_device(subject_.plugins(), device_, vocabulary_.kernels);
    for (const RegisteredKernel* kernel : vocabulary_.own_kernels()) {
      const std::string& op = kernel->definition.op;
      if (covered_.contains(op) || !vocabulary_.ops.has(op)) continue;
      const auto example = guess_example(op, vocabulary_.ops, vocabulary_.kernels);
      if (!example) continue;
      for (const KernelCheck& check :
           check_example_kernels(*example, vocabulary_.ops, vocabulary_.kernels, device, subject_.seed())) {
        add(check);
      }
    }
  }

  [[nodiscard]] const std::set<std::string>& covered() const { return covered_; }
  [[nodiscard]] int comparisons() const { return comparisons_; }

 private:
  /// Counts a comparison of a kernel of the plugin.
  void add(const KernelCheck& check) {
    if (check.origin.find("'" + subject_.name() + "'") == std::string::npos) return;
    require_right(check);
    covered_.insert(check.op);
    ++comparisons_;
  }

  Subject& subject_;
  const KnownVocabulary& vocabulary_;
  std::string device_;
  std::set<std::string> covered_;
  int comparisons_ = 0;
};

std::string check_op_definitions(Subject& subject) {
  const KnownVocabulary vocabulary(subject);
  const std::vector<std::string> names = vocabulary.own_ops();
  const auto kernels = vocabulary.own_kernels();
  if (names.empty() && kernels.empty()) {
    if (subject.kind() == PluginKind::library) throw CheckFailed("the library registers neither an op nor a kernel");
    throw CheckSkipped("the plugin registers neither an op nor a kernel");
  }
  for (const std::string& name : names) {
    const OpDefinition& op = vocabulary.ops.get(name);
    if (op.documentation().find_first_not_of(' ') == std::string::npos) {
      throw CheckFailed("op '" + name + "' is not documented");
    }
    const auto& all = vocabulary.kernels.all(name);
    const bool has_reference =
        std::ranges::any_of(all, [](const auto& kernel) { return kernel->definition.rank == kReferenceRank; });
    if (!has_reference && !op.decomposition()) {
      throw CheckFailed("op '" + name + "' has no reference kernel, which defines it");
    }
  }
  for (const RegisteredKernel* kernel : kernels) {
    if (vocabulary.ops.has(kernel->definition.op)) continue;
    throw CheckFailed("it has a kernel for op '" + kernel->definition.op + "', which no installed plugin brings");
  }
  return std::to_string(names.size()) + " ops, " + std::to_string(kernels.size()) + " kernels";
}

std::string check_op_gradients(Subject& subject) {
  const KnownVocabulary vocabulary(subject);
  std::vector<std::string> differentiable;
  for (const std::string& name : vocabulary.own_ops()) {
    if (vocabulary.ops.get(name).gradient()) differentiable.push_back(name);
  }
  if (differentiable.empty()) throw CheckSkipped("the plugin registers no op with a gradient");
  std::set<std::string> covered;
  int gradients = 0;
  const auto add = [&](const GradientCheck& check) {
    if (!contains(differentiable, check.op)) return;
    require_right(check);
    covered.insert(check.op);
    ++gradients;
  };
  const OpVerification of_run = verify_ops(subject.configuration(), subject.plugins(), {.full = true});
  std::ranges::for_each(of_run.gradients, add);
  const std::unique_ptr<Device> reference = make_device(subject.plugins(), kReferenceDevice, vocabulary.kernels);
  for (const std::string& name : differentiable) {
    if (covered.contains(name)) continue;
    const auto example = guess_example(name, vocabulary.ops, vocabulary.kernels);
    if (!example) continue;
    const auto checks = check_example_gradients(*example, vocabulary.ops, *reference, subject.seed());
    std::ranges::for_each(checks, add);
  }
  const std::string rest = missing(differentiable, covered);
  if (covered.empty()) throw CheckSkipped("no op has an instance" + rest);
  return std::to_string(gradients) + " gradients" + rest;
}

std::string check_op_kernels(Subject& subject) {
  const KnownVocabulary vocabulary(subject);
  std::vector<std::string> names;
  for (const RegisteredKernel* kernel : vocabulary.own_kernels()) {
    const bool is_fast = kernel->definition.rank != kReferenceRank;
    if (is_fast && !contains(names, kernel->definition.op)) {
      names.push_back(kernel->definition.op);
    }
  }
  if (names.empty()) throw CheckSkipped("the plugin registers no kernel besides reference kernels");
  KernelSurvey survey(subject, vocabulary);
  survey.run_configurations();
  survey.run_examples();
  const std::string rest = missing(names, survey.covered());
  if (survey.covered().empty()) throw CheckSkipped("no kernel has an instance" + rest);
  return std::to_string(survey.comparisons()) + " comparisons of kernels of " +
         std::to_string(survey.covered().size()) + " ops" + rest;
}

}  // namespace

std::vector<Check> op_checks() {
  return {
      {"K01", "Every op is documented and has a reference kernel, and every kernel is for a known op.",
       "A kernel is never used, or an op has no definition to compare with.", check_op_definitions},
      {"K02", "The gradient of every op equals finite differences in f64.",
       "Models with the op learn the wrong thing, or nothing.", check_op_gradients},
      {"K03", "Every kernel equals the reference kernel up to rounding, in every real type.",
       "A device computes something else than the model says.", check_op_kernels},
  };
}

}  // namespace strata::host

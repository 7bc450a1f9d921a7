#include "huggingface/initial_values.hpp"

#include "huggingface/hugging_face_checkpoint.hpp"
#include "huggingface/model_parameters.hpp"
#include "strata/error.hpp"
#include "strata/internal/derived_initializer.hpp"

namespace strata::host {
namespace {

constexpr const char* kFromKey = "model.from";

std::shared_ptr<const CheckpointReader> open_values(const RunConfiguration& configuration, PluginRegistry& registry) {
  const std::filesystem::path path = configuration.model_from;
  if (is_hugging_face_folder(path)) return HuggingFaceCheckpoint::open(path, registry, configuration.libraries);
  return std::make_shared<const CheckpointReader>(find_checkpoint(path));
}

/// The tensors from which the parameters of `graph` begin. Those that the checkpoint lacks may be derived from others.
std::map<std::string, Shape> initial_shapes(const Graph& graph, const std::map<std::string, ManifestTensor>& stored) {
  std::map<std::string, Shape> shapes = stored_shapes(graph);
  for (const Parameter& parameter : graph.parameters) {
    const DerivedInitializer* derived = derived_initializer(parameter.initialization);
    if (derived == nullptr || stored.contains(parameter.name)) continue;
    shapes.erase(parameter.name);
    shapes[derived->source().name] = derived->source().shape;
  }
  return shapes;
}

/// Null if the configuration names none.
std::shared_ptr<const CheckpointReader> open_initial_values(RunConfiguration& configuration, PluginRegistry& registry) {
  if (configuration.model_from.empty()) return nullptr;
  try {
    auto values = open_values(configuration, registry);
    const std::string source = "checkpoint '" + values->directory().string() + "'";
    const RunConfiguration stored = parse_configuration(values->run().configuration, source);
    PluginSection& model = configuration.model;
    if (!model.plugin.empty() && model.plugin != stored.model.plugin) {
      throw ConfigurationError(source + " has a model of the plugin '" + stored.model.plugin +
                               "'; found model.plugin = \"" + model.plugin + "\"; accepted: the same, or none");
    }
    model.plugin = stored.model.plugin;
    // std::map::insert() keeps the options that the configuration sets.
    model.options.insert(stored.model.options.begin(), stored.model.options.end());
    return values;
  } catch (const Error& error) {
    throw configuration.error(kFromKey, error.what());
  }
}

}  // namespace

RunSetup prepare_run(RunConfiguration configuration, PluginRegistry& registry) {
  registry.set_hook_limit(configuration.run.watchdog);
  std::shared_ptr<const CheckpointReader> initial = open_initial_values(configuration, registry);
  configuration.model_from.clear();
  return prepare(std::move(configuration), registry, std::move(initial));
}

void require_initial_values(const RunSetup& setup, const DimSizes& data) {
  if (setup.initial == nullptr) return;
  const auto& stored = setup.initial->manifest().tensors;
  const std::map<std::string, Shape> required = model_parameters(setup, data);
  // Parameters that strategies add, such as adapters, begin anew unless the checkpoint has them.
  const std::map<std::string, Shape> shapes = initial_shapes(model_graph(setup, data), stored);
  ProblemList problems = misfits(*setup.initial, shapes, required, "this run's model");
  for (const auto& each : stored) {
    if (shapes.contains(each.first) || each.first.starts_with("optimizer/")) continue;
    problems.add("unexpected: '" + each.first + "'");
  }
  if (problems.empty()) return;
  throw setup.configuration.error(kFromKey, "the parameters of '" + setup.initial->directory().string() +
                                                "' are not those of this run's model:" + problems.text());
}

}  // namespace strata::host

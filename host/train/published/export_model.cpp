#include "train/published/export_model.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "compiler/optimizer_groups.hpp"
#include "plugins/model_strategies.hpp"
#include "strata/error.hpp"
#include "train/checkpoint/checkpoint_names.hpp"
#include "train/published/exported_values.hpp"
#include "train/published/low_rank_terms.hpp"
#include "train/published/model_parameters.hpp"
#include "train/published/peft_adapters.hpp"
#include "train/published/problem_list.hpp"
#include "train/published/published_config.hpp"
#include "train/published/published_writer.hpp"
#include "train/run/run_setup.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// The model of a checkpoint, without the data of its run, and without the strategies that leave the model as it is.
struct StoredModel {
  RunSetup setup;
  /// The sizes that the data of the run fixed.
  DimSizes sizes;
  /// Of the parameters that the model has without strategies.
  std::map<std::string, Shape> shapes;
  /// With the strategies that change the model.
  Graph graph;
};

StoredModel stored_model(const CheckpointReader& checkpoint, RunConfiguration stored, PluginRegistry& registry) {
  RunConfiguration configuration =
      parse_configuration("[run]\nname = \"exported\"\nsteps = 1\n[model]\nplugin = \"" + stored.model.plugin +
                              "\"\n[data]\nplugin = \"tokens\"\n[batch]\nglobal = 1\n",
                          (checkpoint.directory() / kManifestName).string());
  keep_model_strategies(stored, registry);
  configuration.model = stored.model;
  configuration.strategies = stored.strategies;
  configuration.libraries = stored.libraries;
  StoredModel model{prepare(std::move(configuration), registry), {}, {}, {}};
  if (const auto& data = checkpoint.run().data) model.sizes = data->sizes;
  model.shapes = model_parameters(model.setup, model.sizes);
  model.graph = model_graph(model.setup, model.sizes);
  return model;
}

/// \throws RuntimeError that lists where the checkpoint's parameters are not those of the model.
void require_parameters(const CheckpointReader& checkpoint, const Graph& graph) {
  ProblemList problems;
  const std::map<std::string, Shape> shapes = stored_shapes(graph);
  const auto& tensors = checkpoint.manifest().tensors;
  for (const auto& [name, shape] : shapes) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      problems.add("missing: '" + name + "' " + shape_text(shape));
      continue;
    }
    const Shape& stored = found->second.shape;
    // A checkpoint of replicas that train apart has a leading dim that counts them.
    const bool fits = stored == shape || (!stored.empty() && Shape(stored.begin() + 1, stored.end()) == shape);
    if (!fits)
      problems.add("wrong shape: '" + name + "' is " + shape_text(stored) + "; the model has " + shape_text(shape));
  }
  for (const auto& each : tensors) {
    const std::string& name = each.first;
    if (shapes.contains(name) || name.starts_with("optimizer/")) continue;
    problems.add("unexpected: '" + name + "'; is it of a strategy?");
  }
  if (problems.empty()) return;
  throw RuntimeError("checkpoint '" + checkpoint.directory().string() +
                     "': its parameters are not those of its model:" + problems.text());
}

std::string torch_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

/// Adds the special tokens of the imported config.json, which the model does not know. Without one they are unknown.
void add_special_tokens(const ModelFiles& files, PublishedFields& config) {
  for (const char* field : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (!config.contains(field)) config.set_null(field);
  }
  const auto imported =
      std::find_if(files.begin(), files.end(), [](const ModelFile& each) { return each.name == kPublishedConfig; });
  if (imported == files.end()) return;
  const PublishedFields fields = parse_published_config(imported->bytes);
  for (const auto& [field, value] : fields.values()) {
    if (field.ends_with("_token_id") && field.find('.') == std::string::npos && value) config.set(field, *value);
  }
}

void require_average(const CheckpointReader& checkpoint, RestoredWeights weights) {
  if (weights != RestoredWeights::average || checkpoint.has_average()) return;
  throw ConfigurationError("checkpoint '" + checkpoint.directory().string() +
                           "' has no moving average of the weights; accepted: one of a run with [optimizer.average]");
}

/// A checkpoint's model and how it is published.
class Export {
 public:
  Export(const CheckpointReader& checkpoint, PluginRegistry& registry, RestoredWeights weights)
      : Export(checkpoint, registry, weights,
               parse_configuration(checkpoint.run().configuration, (checkpoint.directory() / kManifestName).string())) {
  }

  ModelSummary write_model(const fs::path& out, const ExportSettings& settings) {
    PublishedFields config =
        call_plugin(plugin_.origin, "config", [&] { return plugin_.format->config(options(), model_.sizes); });
    NewFolder folder(out);
    const ModelFiles files = checkpoint_.model_files();
    const PublishedWriter writer(values_, layout_, model_.shapes, settings);
    folder.require_space(writer.summary().bytes);
    config.set("torch_dtype", OptionValue(torch_name(writer.main_dtype())));
    add_special_tokens(files, config);
    writer.write(folder);
    for (const ModelFile& each : files) {
      if (each.name != kPublishedConfig) folder.write(each.name, each.bytes);
    }
    folder.write(kPublishedConfig, to_json(config));
    folder.commit();
    return writer.summary();
  }

  ModelSummary write_adapters(const fs::path& out) {
    const ReadParameter read = [this](const std::string& name, std::span<float> values) {
      values_.read_whole(name, values);
    };
    NewFolder folder(out);
    const ModelSummary summary = write_peft_adapters(folder.temporary(), {terms_, read, places(), ""});
    folder.commit();
    return summary;
  }

 private:
  Export(const CheckpointReader& checkpoint, PluginRegistry& registry, RestoredWeights weights,
         const RunConfiguration& stored)
      : checkpoint_(checkpoint),
        plugin_(publishing_plugin(stored.model.plugin, registry)),
        model_(stored_model(checkpoint, stored, registry)),
        terms_(model_.graph),
        values_(checkpoint, terms_, weights),
        layout_(
            plugin_,
            call_plugin(plugin_.origin, "tensors", [&] { return plugin_.format->tensors(options(), model_.sizes); }),
            model_.shapes) {
    require_average(checkpoint, weights);
    require_parameters(checkpoint, model_.graph);
  }

  [[nodiscard]] const Options& options() const { return model_.setup.plugins.model.options; }

  /// Where each parameter lies. Tensors that several parameters share are divided along their outputs.
  [[nodiscard]] std::map<std::string, PublishedPlace> places() const {
    std::map<std::string, PublishedPlace> places;
    for (const auto& [tensor, parts] : layout_.by_tensor()) {
      for (const auto& [where, view] : parts) {
        const bool is_whole = parts.size() == 1;
        const std::int64_t outputs = is_whole ? 0 : where.shape.at(static_cast<std::size_t>(where.slice_dim));
        places[where.parameter] = {tensor, is_whole ? 0 : where.slice_begin, outputs};
      }
    }
    return places;
  }

  const CheckpointReader& checkpoint_;
  PublishingPlugin plugin_;
  StoredModel model_;
  LowRankTerms terms_;
  ExportedValues values_;
  PublishedLayout layout_;
};

}  // namespace

ModelSummary export_model(const CheckpointReader& checkpoint, PluginRegistry& registry, const fs::path& out,
                          const ExportSettings& settings) {
  return Export(checkpoint, registry, settings.weights).write_model(out, settings);
}

ModelSummary export_adapters(const CheckpointReader& checkpoint, PluginRegistry& registry, const fs::path& out,
                             RestoredWeights weights) {
  return Export(checkpoint, registry, weights).write_adapters(out);
}

}  // namespace strata::host

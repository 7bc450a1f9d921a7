#include "huggingface/export_model.hpp"

#include <optional>
#include <string>
#include <utility>

#include "checkpoint/checkpoint_names.hpp"
#include "compiler/optimizer_groups.hpp"
#include "huggingface/checkpoint_fit.hpp"
#include "huggingface/config.hpp"
#include "huggingface/exported_config.hpp"
#include "huggingface/exported_values.hpp"
#include "huggingface/low_rank_terms.hpp"
#include "huggingface/model_parameters.hpp"
#include "huggingface/peft_adapters.hpp"
#include "huggingface/writer.hpp"
#include "loading/model_strategies.hpp"
#include "setup/run_setup.hpp"
#include "strata/error.hpp"

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
  // Exporting runs nothing.
  configuration.device.plugin.clear();
  StoredModel model{prepare(std::move(configuration), registry), {}, {}, {}};
  if (const auto& data = checkpoint.run().data) model.sizes = data->sizes;
  model.shapes = model_parameters(model.setup, model.sizes);
  model.graph = model_graph(model.setup, model.sizes);
  return model;
}

/// A checkpoint's model and its form in files of Hugging Face.
class Export {
 public:
  Export(const CheckpointReader& checkpoint, PluginRegistry& registry, RestoredWeights weights)
      : Export(checkpoint, registry, weights,
               parse_configuration(checkpoint.run().configuration, (checkpoint.directory() / kManifestName).string())) {
  }

  ModelSummary write_model(const fs::path& out, const ExportSettings& settings) {
    const ModelFiles files = checkpoint_.model_files();
    const HuggingFaceWriter writer(values_, layout_, model_.shapes, settings);
    const std::string config = exported_config(plugin_, options(), model_.sizes, files, writer.main_dtype());
    NewFolder folder(out);
    folder.require_space(writer.summary().bytes);
    writer.write(folder);
    for (const ModelFile& each : files) {
      if (each.name != kHuggingFaceConfig) folder.write(each.name, each.bytes);
    }
    folder.write(kHuggingFaceConfig, config);
    folder.commit();
    return writer.summary();
  }

  ModelSummary write_adapters(const fs::path& out) {
    const ReadParameter read = [this](const std::string& name, std::span<float> values) {
      values_.read_whole(name, values);
    };
    NewFolder folder(out);
    const ModelSummary summary =
        write_peft_adapters(folder.temporary(), {terms_, read, huggingface_places(layout_), base_model()});
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
    checkpoint.require(weights);
    require_parameters_of(checkpoint, model_.graph);
  }

  [[nodiscard]] const Options& options() const { return model_.setup.plugins.model.options; }

  /// The name by which transformers knew the imported model. Empty if its config.json has none.
  [[nodiscard]] std::string base_model() const {
    const std::optional<HuggingFaceFields> config = imported_config(checkpoint_.model_files());
    return config ? config->word("_name_or_path", "") : "";
  }

  const CheckpointReader& checkpoint_;
  PublishingPlugin plugin_;
  StoredModel model_;
  LowRankTerms terms_;
  ExportedValues values_;
  HuggingFaceLayout layout_;
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

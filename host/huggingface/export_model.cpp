#include "huggingface/export_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "checkpoint/checkpoint_store.hpp"
#include "compiler/optimizer_groups.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "huggingface/exported_values.hpp"
#include "huggingface/hugging_face_files.hpp"
#include "huggingface/low_rank_terms.hpp"
#include "huggingface/model_parameters.hpp"
#include "huggingface/peft_adapters.hpp"
#include "loading/resolved_plugins.hpp"
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

/// True if the dataset of a run is installed and knows the tokens around its texts.
bool knows_text_tokens(const PluginSection& dataset, PluginRegistry& registry) {
  if (registry.find(PluginKind::dataset, dataset.plugin) == nullptr) return false;
  const OptionSchema& schema = registry.load<DatasetFactory>(dataset.plugin).options();
  return schema.find(OptionRole::text_end, OptionType::integer) != nullptr;
}

StoredModel stored_model(const CheckpointReader& checkpoint, RunConfiguration stored, PluginRegistry& registry) {
  RunConfiguration configuration =
      parse_configuration("[run]\nname = \"exported\"\nsteps = 1\n[model]\nplugin = \"" + stored.model.plugin +
                              "\"\n[data]\nplugin = \"tokens\"\n[batch]\nglobal = 1\n",
                          (checkpoint.directory() / kManifestName).string());
  keep_model_strategies(stored, registry);
  configuration.model = stored.model;
  if (knows_text_tokens(stored.data.dataset, registry)) configuration.data.dataset = stored.data.dataset;
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

constexpr std::int64_t kRowsBytes = std::int64_t{8} << 20;

bool is_type_of_hugging_face(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

/// The type of a tensor that consists of `parts`: that of the files from which training began, or f32 if they differ.
DType dtype_of(const ExportedValues& values, const std::vector<MappedParameter>& parts,
               const ExportSettings& settings) {
  if (settings.dtype) return *settings.dtype;
  const DType first = values.imported_dtype(parts.front().where.parameter);
  const bool equal = std::ranges::all_of(
      parts, [&](const MappedParameter& each) { return values.imported_dtype(each.where.parameter) == first; });
  return equal && is_type_of_hugging_face(first) ? first : DType::f32;
}

/// \throws RuntimeError if a value did not fit into f16.
void require_finite_f16(const std::vector<std::byte>& data, std::size_t bytes, const std::string& tensor) {
  for (std::size_t i = 0; i + 1 < bytes; i += 2) {
    const auto high = static_cast<unsigned>(data[i + 1]);
    if ((high & 0x7cU) != 0x7cU) continue;
    throw RuntimeError("'" + tensor + "' has a value that f16 cannot hold; accepted: --dtype bf16 or f32");
  }
}

std::string file_name(std::size_t index, std::size_t count) {
  if (count == 1) return kHuggingFaceWeights;
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

/// Writes the tensors of a model of Hugging Face, in files of a limited size and with their index.
class HuggingFaceWriter {
 public:
  /// `shapes`: of the parameters. All references outlive the writer.
  HuggingFaceWriter(ExportedValues& values, const HuggingFaceLayout& layout, const std::map<std::string, Shape>& shapes,
                    const ExportSettings& settings)
      : values_(values), layout_(layout), shapes_(shapes), files_(1) {
    std::uint64_t bytes = 0;
    for (const auto& [name, parts] : layout.by_tensor()) {
      const SafetensorsTensor tensor{name, dtype_of(values, parts, settings), parts.front().where.shape};
      if (!files_.back().empty() && bytes + tensor.bytes() > settings.shard_bytes) {
        files_.emplace_back();
        bytes = 0;
      }
      files_.back().push_back(tensor);
      bytes += tensor.bytes();
    }
    for (auto& tensors : files_) sort_for_safetensors(tensors);
  }

  /// The type of most tensors.
  [[nodiscard]] DType main_dtype() const {
    std::map<DType, std::uint64_t> bytes;
    for (const auto& tensors : files_) {
      for (const SafetensorsTensor& each : tensors) bytes[each.dtype] += each.bytes();
    }
    return std::ranges::max_element(bytes, [](const auto& a, const auto& b) { return a.second < b.second; })->first;
  }
  [[nodiscard]] ModelSummary summary() const {
    ModelSummary summary{.files = files_.size()};
    for (const auto& tensors : files_) {
      for (const SafetensorsTensor& each : tensors) {
        ++summary.tensors;
        summary.parameters += element_count(each.shape);
        summary.bytes += each.bytes();
      }
    }
    return summary;
  }
  void write(const NewFolder& folder) const {
    nlohmann::json weight_map = nlohmann::json::object();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const std::string name = file_name(i, files_.size());
      write_file(folder, name, files_[i]);
      for (const SafetensorsTensor& each : files_[i]) weight_map[each.name] = name;
    }
    if (files_.size() == 1) return;
    const nlohmann::json index = {{"metadata", {{"total_size", summary().bytes}}}, {"weight_map", weight_map}};
    folder.write(kHuggingFaceIndex, json_text(index, 2) + "\n");
  }

 private:
  void write_file(const NewFolder& folder, const std::string& name,
                  const std::vector<SafetensorsTensor>& tensors) const {
    OutputFile file(folder.temporary() / name);
    // transformers refuses files without this metadata.
    const std::string header = safetensors_header(tensors, {{"format", "pt"}});
    file.write(header.data(), header.size());
    std::vector<std::byte> data;
    for (const SafetensorsTensor& each : tensors) {
      const std::vector<MappedParameter>& parts = layout_.by_tensor().at(each.name);
      const bool is_copied = std::ranges::all_of(
          parts, [&](const MappedParameter& part) { return values_.is_copied(part.where.parameter, each.dtype); });
      TensorRows rows(values_, parts, shapes_, each.dtype);
      std::int64_t step = rows.rows();
      if (rows.step() > 0) step = std::max(rows.step(), kRowsBytes / rows.row_bytes() / rows.step() * rows.step());
      for (std::int64_t begin = 0; begin < rows.rows(); begin += step) {
        const std::int64_t end = std::min(rows.rows(), begin + step);
        const auto bytes = static_cast<std::size_t>((end - begin) * rows.row_bytes());
        data.resize(bytes);
        rows.read(begin, end, data.data());
        if (each.dtype == DType::f16 && !is_copied) require_finite_f16(data, bytes, each.name);
        file.write(data.data(), bytes);
      }
    }
    file.finish();
  }

  ExportedValues& values_;
  const HuggingFaceLayout& layout_;
  const std::map<std::string, Shape>& shapes_;
  /// The tensors of each file.
  std::vector<std::vector<SafetensorsTensor>> files_;
};

/// A checkpoint's model and its form in files of Hugging Face.
class Export {
 public:
  Export(const CheckpointReader& checkpoint, PluginRegistry& registry, RestoredWeights weights)
      : Export(checkpoint, registry, weights, checkpoint.configuration()) {}

  ModelSummary write_model(const fs::path& out, const ExportSettings& settings) {
    const ModelFiles files = checkpoint_.model_files();
    const HuggingFaceWriter writer(values_, layout_, model_.shapes, settings);
    const std::string config =
        exported_config(plugin_, options(), model_.sizes, files, writer.main_dtype(), text_tokens());
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
        write_peft_adapters(folder.temporary(), {terms_, read, hugging_face_places(layout_), base_model()});
    folder.commit();
    return summary;
  }

 private:
  Export(const CheckpointReader& checkpoint, PluginRegistry& registry, RestoredWeights weights,
         const RunConfiguration& stored)
      : checkpoint_(checkpoint),
        plugin_(hugging_face_plugin(stored.model.plugin, registry)),
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

  /// The fields for the tokens around texts, as the dataset of the run has them. Empty if it does not say them.
  [[nodiscard]] HuggingFaceFields text_tokens() const {
    HuggingFaceFields fields;
    const auto set = [&](OptionRole role, const char* field) {
      if (const auto token = model_.setup.text_token(role)) fields.set(field, OptionValue(std::int64_t{*token}));
    };
    set(OptionRole::text_begin, "decoder_start_token_id");
    set(OptionRole::text_begin, "pad_token_id");
    set(OptionRole::text_end, "eos_token_id");
    return fields;
  }

  /// The name by which transformers knew the imported model. Empty if its config.json has none.
  [[nodiscard]] std::string base_model() const {
    const std::optional<HuggingFaceFields> config = imported_config(checkpoint_.model_files());
    return config ? config->word("_name_or_path", "") : "";
  }

  const CheckpointReader& checkpoint_;
  HuggingFacePlugin plugin_;
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

#include "huggingface/exported_config.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "huggingface/hugging_face_files.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

std::string torch_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

const std::string* find_config(const ModelFiles& files) {
  const auto found =
      std::find_if(files.begin(), files.end(), [](const ModelFile& each) { return each.name == kHuggingFaceConfig; });
  return found == files.end() ? nullptr : &found->bytes;
}

/// The fields of a checkpoint's config.json. \throws ConfigurationError that names it.
HuggingFaceFields fields_of(const std::string& text) {
  try {
    return parse_hugging_face_config(text);
  } catch (const Error& error) {
    throw ConfigurationError("the checkpoint's " + std::string(kModelFilesFolder) + "/" + kHuggingFaceConfig + " " +
                             error.what());
  }
}

class ExportedConfig {
 public:
  ExportedConfig(const HuggingFacePlugin& plugin, const Options& options, const DimSizes& sizes)
      : plugin_(plugin), sizes_(sizes), own_(config(options)) {}

  /// The config.json `text` with the fields in which the model now differs. Empty if the result would not describe the
  /// model, for example because the plugin now gives it another type.
  [[nodiscard]] std::optional<std::string> edit(const std::string& text) const {
    const std::optional<HuggingFaceFields> before = config_of(text);
    if (!before) return std::nullopt;
    std::vector<std::string> removed;
    for (const auto& [field, value] : before->values()) {
      if (!own_.contains(field)) removed.push_back(field);
    }
    HuggingFaceFields changed;
    for (const auto& [field, value] : own_.values()) {
      const auto old = before->values().find(field);
      if (old != before->values().end() && old->second == value) continue;
      value ? changed.set(field, *value) : changed.set_null(field);
    }
    std::string edited = edit_json(text, removed, changed);
    if (describes_model(edited)) return edited;
    return edit_without_a_field(text, *before, changed);
  }

  /// The plugin's own fields, and the special tokens of `imported`.
  [[nodiscard]] std::string write(const HuggingFaceFields& imported) const {
    HuggingFaceFields config = own_;
    // The model does not know its special tokens. Without a field, transformers would take its own defaults.
    for (const char* field : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      if (!config.contains(field)) config.set_null(field);
    }
    for (const auto& [field, value] : imported.values()) {
      if (field.ends_with("_token_id") && field.find('.') == std::string::npos && value) config.set(field, *value);
    }
    return to_json(config);
  }

 private:
  [[nodiscard]] HuggingFaceFields config(const Options& options) const {
    return call_plugin(plugin_.origin, "config", [&] { return plugin_.format->config(options, sizes_); });
  }

  /// A field that the plugin does not write may contradict the changed ones. Then it goes. It is one that the plugin
  /// reads, such as rope_parameters, for which the plugin's own fields stand; or one that it only compares with others,
  /// such as layer_types. `before`: the plugin's own fields for the model of `text`.
  [[nodiscard]] std::optional<std::string> edit_without_a_field(const std::string& text,
                                                                const HuggingFaceFields& before,
                                                                const HuggingFaceFields& changed) const {
    std::vector<std::string> compared;
    for (const std::string& name : fields_of_others(text)) {
      const std::optional<HuggingFaceFields> without = config_of(edit_json(text, {name}, {}));
      if (without && without->values() == before.values()) {
        compared.push_back(name);
        continue;
      }
      std::string edited = edit_json(text, {name}, own_);
      if (describes_model(edited)) return edited;
    }
    for (const std::string& name : compared) {
      std::string edited = edit_json(text, {name}, changed);
      if (describes_model(edited)) return edited;
    }
    return std::nullopt;
  }

  /// The names of the outermost fields that the plugin does not write.
  [[nodiscard]] std::set<std::string> fields_of_others(const std::string& text) const {
    std::set<std::string> names;
    const HuggingFaceFields fields = fields_of(text);
    for (const auto& [field, value] : fields.values()) {
      const std::string name = field.substr(0, field.find('.'));
      if (!own_.contains(name) && !own_.has_value(name)) names.insert(name);
    }
    return names;
  }

  [[nodiscard]] bool describes_model(const std::string& text) const {
    const std::optional<HuggingFaceFields> config = config_of(text);
    return config && config->values() == own_.values();
  }

  /// The plugin's own fields for the model of a config.json. Empty if it is none of the plugin's models.
  [[nodiscard]] std::optional<HuggingFaceFields> config_of(const std::string& text) const {
    const HuggingFaceFields fields = fields_of(text);
    try {
      const std::optional<Options> described =
          call_plugin(plugin_.origin, "options", [&] { return plugin_.format->options(fields); });
      if (!described) return std::nullopt;
      return config(Options(declared_options(plugin_.origin, *plugin_.factory), described->values()));
    } catch (const ConfigurationError&) {
      // Fields contradict each other, for example a new window and the old list of layers that have one.
      return std::nullopt;
    }
  }

  const HuggingFacePlugin& plugin_;
  const DimSizes& sizes_;
  HuggingFaceFields own_;
};

}  // namespace

std::optional<HuggingFaceFields> imported_config(const ModelFiles& files) {
  const std::string* text = find_config(files);
  if (text == nullptr) return std::nullopt;
  return fields_of(*text);
}

std::string exported_config(const HuggingFacePlugin& plugin, const Options& options, const DimSizes& sizes,
                            const ModelFiles& files, DType dtype) {
  const ExportedConfig config(plugin, options, sizes);
  const std::string* imported = find_config(files);
  const HuggingFaceFields fields = imported_config(files).value_or(HuggingFaceFields());
  std::optional<std::string> text = imported == nullptr ? std::nullopt : config.edit(*imported);
  if (!text) text = config.write(fields);
  // Files of transformers 5 have the field dtype, older ones torch_dtype.
  const bool has_new_name = fields.contains("dtype");
  HuggingFaceFields type;
  if (has_new_name) type.set("dtype", OptionValue(torch_name(dtype)));
  if (!has_new_name || fields.contains("torch_dtype")) type.set("torch_dtype", OptionValue(torch_name(dtype)));
  return edit_json(*text, {}, type);
}

}  // namespace strata::host

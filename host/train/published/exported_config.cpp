#include "train/published/exported_config.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "strata/error.hpp"
#include "train/published/published_config.hpp"

namespace strata::host {
namespace {

std::string torch_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

const std::string* find_config(const ModelFiles& files) {
  const auto found =
      std::find_if(files.begin(), files.end(), [](const ModelFile& each) { return each.name == kPublishedConfig; });
  return found == files.end() ? nullptr : &found->bytes;
}

class ExportedConfig {
 public:
  ExportedConfig(const PublishingPlugin& plugin, const Options& options, const DimSizes& sizes)
      : plugin_(plugin), options_(options), sizes_(sizes), own_(config(options)) {}

  /// The config.json `text` with the fields in which the model now differs. Empty if the result would not describe the
  /// model, for example because the plugin now gives it another type.
  [[nodiscard]] std::optional<std::string> edit(const std::string& text) const {
    const std::optional<PublishedFields> before = config_of(text);
    if (!before) return std::nullopt;
    std::vector<std::string> removed;
    for (const auto& [field, value] : before->values()) {
      if (!own_.contains(field)) removed.push_back(field);
    }
    PublishedFields changed;
    for (const auto& [field, value] : own_.values()) {
      const auto old = before->values().find(field);
      if (old != before->values().end() && old->second == value) continue;
      value ? changed.set(field, *value) : changed.set_null(field);
    }
    std::string edited = edit_json(text, removed, changed);
    const std::optional<PublishedFields> after = config_of(edited);
    if (!after || after->values() != own_.values()) return std::nullopt;
    return edited;
  }

  /// The plugin's own fields, and the special tokens of `imported`.
  [[nodiscard]] std::string write(const PublishedFields& imported) const {
    PublishedFields config = own_;
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
  [[nodiscard]] PublishedFields config(const Options& options) const {
    return call_plugin(plugin_.origin, "config", [&] { return plugin_.format->config(options, sizes_); });
  }

  /// The plugin's own fields for the model of a config.json. Empty if it is none of the plugin's models.
  [[nodiscard]] std::optional<PublishedFields> config_of(const std::string& text) const {
    const PublishedFields fields = parse_published_config(text);
    std::optional<Options> described;
    try {
      described = call_plugin(plugin_.origin, "options", [&] { return plugin_.format->options(fields); });
    } catch (const ConfigurationError&) {
      // Fields contradict each other, for example a new window and the old list of layers that have one.
      return std::nullopt;
    }
    if (!described) return std::nullopt;
    Options options = options_;
    for (const auto& [name, value] : described->values()) options.set(name, value);
    return config(options);
  }

  const PublishingPlugin& plugin_;
  const Options& options_;
  const DimSizes& sizes_;
  PublishedFields own_;
};

}  // namespace

std::optional<PublishedFields> imported_config(const ModelFiles& files) {
  const std::string* text = find_config(files);
  if (text == nullptr) return std::nullopt;
  return parse_published_config(*text);
}

std::string exported_config(const PublishingPlugin& plugin, const Options& options, const DimSizes& sizes,
                            const ModelFiles& files, DType dtype) {
  const ExportedConfig config(plugin, options, sizes);
  const std::string* imported = find_config(files);
  const PublishedFields fields = imported_config(files).value_or(PublishedFields());
  std::optional<std::string> text = imported == nullptr ? std::nullopt : config.edit(*imported);
  if (!text) text = config.write(fields);
  // Files of transformers 5 have the field dtype, older ones torch_dtype.
  const bool has_new_name = fields.contains("dtype");
  PublishedFields type;
  if (has_new_name) type.set("dtype", OptionValue(torch_name(dtype)));
  if (!has_new_name || fields.contains("torch_dtype")) type.set("torch_dtype", OptionValue(torch_name(dtype)));
  return edit_json(*text, {}, type);
}

}  // namespace strata::host

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "config/document.hpp"
#include "config/run_configuration.hpp"
#include "config/sections.hpp"
#include "files/file_io.hpp"
#include "files/text_format.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

/// The section that host/cluster reads.
constexpr const char* kClusterKey = "cluster";

/// Keys, and options of plugins without a section, with the names that they have in nanoGPT, Hugging Face's
/// Transformers and PEFT, Megatron-LM, DeepSpeed and torchtitan.
const std::map<std::string, std::vector<std::string>>& names_elsewhere() {
  static const std::map<std::string, std::vector<std::string>> names = {
      {"optimizer.lr", {"learning_rate", "max_lr"}},
      {"optimizer.schedule.min_lr", {"min_learning_rate"}},
      {"optimizer.schedule.warmup", {"warmup_iters", "warmup_steps"}},
      {"optimizer.schedule.kind", {"lr_scheduler_type"}},
      {"optimizer.clip", {"grad_clip", "clip_grad", "max_grad_norm", "gradient_clipping"}},
      {"batch.global", {"batch_size", "global_batch_size", "train_batch_size"}},
      {"batch.micro", {"micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu"}},
      {"batch.global, which is micro times replicas times accumulated micro-batches", {"gradient_accumulation_steps"}},
      {"run.steps", {"max_iters", "max_steps", "train_iters", "num_train_steps"}},
      {"run.eval_every", {"eval_interval", "eval_steps"}},
      {"run.eval_batches", {"eval_iters"}},
      {"run.checkpoint_every", {"save_steps", "save_interval"}},
      {"run.output", {"output_dir", "out_dir"}},
      {"layers", {"n_layer", "n_layers", "num_layers", "num_hidden_layers"}},
      {"heads", {"n_head", "n_heads", "num_heads", "num_attention_heads"}},
      {"kv_heads", {"num_key_value_heads", "n_kv_heads"}},
      {"embed", {"n_embd", "dim", "d_model", "hidden_size"}},
      {"ffn", {"intermediate_size", "ffn_hidden_size"}},
      {"context", {"block_size", "seq_len", "seq_length", "max_seq_len", "max_position_embeddings"}},
      {"vocab", {"vocab_size"}},
      {"rank", {"r", "lora_r"}},
      {"alpha", {"lora_alpha"}},
      {"targets", {"target_modules"}},
      {"size", {"degree", "world_size"}},
      {"path", {"data_dir"}},
  };
  return names;
}

/// The key that is probably meant by an unknown one: "; did you mean 'layers'?". `known`: the keys of its section.
std::string suggestion(const std::string& key, const std::vector<std::string>& known) {
  for (const auto& [here, names] : names_elsewhere()) {
    const bool is_known = here.find('.') != std::string::npos || contains(known, here);
    if (is_known && contains(names, key)) return "; it is called " + here + " here";
  }
  if (const std::string near = did_you_mean(key, known); !near.empty()) return near;
  for (const SectionDeclaration& section : section_declarations()) {
    if (key == "plugin" || section.schema.find(key) == nullptr) continue;
    return "; did you mean '" + section.path + "." + key + "'?";
  }
  return "";
}

/// The message for an unknown key: "unknown key; did you mean 'layers'?; accepted: …".
std::string unknown_key(const std::string& key, const std::vector<std::string>& known, const std::string& noun) {
  return fmt::format("unknown {}{}; accepted: {}", noun, suggestion(key, known), fmt::join(known, ", "));
}

/// Reads the tables of a document into a configuration, checked against the sections' declarations.
class DocumentReader {
 public:
  DocumentReader(const DocumentNode& document, const std::string& source) : document_(document) {
    configuration_.places = ConfigurationPlaces(source);
  }

  RunConfiguration read() {
    std::vector<std::string> known = known_keys("");
    known.emplace_back(kClusterKey);
    for (const DocumentNode& node : document_.children) {
      if (!contains(known, node.key)) throw error_at(node.key_place, node.key, unknown_key(node.key, known, "section"));
    }
    for (const SectionDeclaration& section : section_declarations()) {
      const DocumentNode* node = document_.at(section.path);
      if (section.repeated()) {
        if (node != nullptr) read_tables(section, *node);
      } else {
        read_table(section, node, section.path, 0);
      }
    }
    if (const DocumentNode* cluster = document_.find(kClusterKey)) {
      configuration_.cluster.table = std::make_shared<DocumentNode>(*cluster);
    }
    if (configuration_.run.output.empty()) configuration_.run.output = "runs/" + configuration_.run.name;
    return std::move(configuration_);
  }

 private:
  void read_tables(const SectionDeclaration& section, const DocumentNode& list) {
    if (list.is_empty_list()) return;
    if (list.kind != DocumentNode::Kind::tables) {
      throw error_at(list.place, section.path,
                     "found " + describe(list) + "; accepted: tables headed " + section.heading());
    }
    for (std::size_t i = 0; i < list.children.size(); ++i) {
      read_table(section, &list.children[i], section.path + "." + std::to_string(i), i);
    }
  }

  void read_table(const SectionDeclaration& section, const DocumentNode* node, const std::string& path,
                  std::size_t table) {
    PluginSection* plugin = section.has_plugin() ? &section.plugin(configuration_, table) : nullptr;
    if (plugin != nullptr) plugin->path = path;
    if (node != nullptr) {
      configuration_.places.add(path, node->key_place, node->place);
      if (node->kind != DocumentNode::Kind::table) {
        throw error_at(node->place, path, "found " + describe(*node) + "; accepted: a table");
      }
      for (const DocumentNode& child : node->children) read_child(section, child, path, table);
    }
    for (const Key& key : section.keys) {
      if (node != nullptr && node->find(key.option.name) != nullptr) continue;
      if (!key.option.default_value) {
        throw error_at(place(path), path + "." + key.option.name, "missing; accepted: " + accepted_values(key.option));
      }
      key.set(configuration_, table, *key.option.default_value);
    }
    if (plugin != nullptr && plugin->plugin.empty()) check_absent_plugin(*plugin, section.path);
  }

  /// Reads a child of a table: a key of the host, a table that is read by itself, or an option of the table's plugin.
  void read_child(const SectionDeclaration& section, const DocumentNode& child, const std::string& table_path,
                  std::size_t table) {
    const std::string path = table_path + "." + child.key;
    configuration_.places.add(path, child.key_place, child.place);
    const auto key = std::ranges::find_if(section.keys, [&](const Key& each) { return each.option.name == child.key; });
    if (key != section.keys.end()) {
      key->set(configuration_, table, checked(section.schema, key->option, child, path));
      return;
    }
    const std::vector<std::string> known = known_keys(section.path);
    if (contains(known, child.key)) return;
    if (!section.has_plugin()) throw error_at(child.key_place, path, unknown_key(child.key, known, "key"));
    if (child.kind != DocumentNode::Kind::value) {
      throw error_at(child.place, path,
                     "found " + describe(child) +
                         "; accepted: true, false, a number, a string, a list of numbers or a list of strings");
    }
    section.plugin(configuration_, table).options[child.key] = child.value;
  }

  static OptionValue checked(const OptionSchema& schema, const OptionSpecification& option, const DocumentNode& node,
                             const std::string& path) {
    if (node.kind != DocumentNode::Kind::value) {
      throw error_at(node.place, path, "found " + describe(node) + "; accepted: " + accepted_values(option));
    }
    try {
      return schema.checked(option, node.value);
    } catch (const ConfigurationError& error) {
      throw error_at(node.place, path, error.what());
    }
  }

  /// A model may be that of a checkpoint, and a group of parameters may have the optimizer of the others.
  void check_absent_plugin(const PluginSection& section, const std::string& declared) const {
    const std::string path = section.path + ".plugin";
    if (declared == "model") {
      if (!configuration_.model_from.empty()) return;
      throw error_at(place(path), path, "missing; accepted: the name of a plugin, or a key `from`");
    }
    if (declared != "optimizer.group") {
      throw error_at(place(path), path, "found \"\"; accepted: the name of a plugin");
    }
    if (section.options.empty()) return;
    const std::string& key = section.options.begin()->first;
    throw error_at(configuration_.places.key(section.path + "." + key), section.path + "." + key,
                   unknown_key(key, known_keys(declared), "key") + "; options of an optimizer follow a `plugin`");
  }

  [[nodiscard]] Place place(const std::string& path) const { return configuration_.places.value(path); }

  const DocumentNode& document_;
  RunConfiguration configuration_;
};

/// True if TOML takes the key without quotes.
bool is_bare(const std::string& key) {
  return !key.empty() && std::ranges::all_of(key, [](unsigned char letter) {
    return letter < 0x80 && (std::isalnum(letter) != 0 || letter == '_' || letter == '-');
  });
}

}  // namespace

RunConfiguration parse_configuration(const std::string& text, const std::string& source,
                                     const std::vector<std::string>& overrides) {
  DocumentNode document = parse_document(text, source);
  for (const std::string& argument : overrides) apply_override(document, argument);
  RunConfiguration configuration = DocumentReader(document, source).read();
  check_configuration(configuration);
  return configuration;
}

RunConfiguration load_configuration(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const RunConfiguration configuration = parse_configuration(read_text(path), path.string(), overrides);
  check_schedule_lengths(configuration);
  return configuration;
}

Options resolve_options(const RunConfiguration& configuration, const PluginSection& section,
                        const OptionSchema& schema) {
  std::vector<std::string> known = known_keys(declared_path(section.path));
  for (const OptionSpecification& option : schema.options()) known.push_back(option.name);
  Options resolved;
  for (const auto& [name, value] : section.options) {
    const std::string path = section.path + "." + name;
    const OptionSpecification* option = schema.find(name);
    if (option == nullptr) {
      throw error_at(configuration.places.key(path), path,
                     unknown_key(name, known, "option of plugin '" + section.plugin + "'"));
    }
    try {
      resolved.set(name, schema.checked(*option, value));
    } catch (const ConfigurationError& error) {
      throw configuration.error(path, error.what());
    }
  }
  for (const OptionSpecification& option : schema.options()) {
    if (section.options.contains(option.name)) continue;
    if (!option.default_value) {
      throw configuration.error(section.path + "." + option.name,
                                "missing; accepted: " + accepted_values(option) + " (" + option.documentation + ")");
    }
    resolved.set(option.name, schema.checked(option, *option.default_value));
  }
  return resolved;
}

std::vector<ConfigurationTable> configuration_tables(RunConfiguration configuration) {
  std::vector<ConfigurationTable> tables;
  for (const SectionDeclaration& section : section_declarations()) {
    const std::size_t count = section.repeated() ? section.count(configuration) : 1;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string path = section.repeated() ? fmt::format("{}.{}", section.path, i) : section.path;
      ConfigurationTable& table = tables.emplace_back(ConfigurationTable{path, {}});
      for (const Key& key : section.keys) table.values.emplace_back(key.option.name, key.get(configuration, i));
      if (!section.has_plugin()) continue;
      const PluginSection& plugin = section.plugin(configuration, i);
      table.values.insert(table.values.end(), plugin.options.begin(), plugin.options.end());
    }
  }
  return tables;
}

std::string to_toml(const RunConfiguration& configuration) {
  std::string text;
  for (const ConfigurationTable& table : configuration_tables(configuration)) {
    text += (text.empty() ? "" : "\n") + section_declaration(declared_path(table.path)).heading() + "\n";
    for (const auto& [name, value] : table.values) {
      text += (is_bare(name) ? name : to_string(OptionValue(name))) + " = " + to_string(value) + "\n";
    }
  }
  return text;
}

}  // namespace strata::host

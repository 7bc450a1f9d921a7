#include "huggingface/peft_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "files/file_io.hpp"
#include "files/message_text.hpp"
#include "huggingface/config.hpp"
#include "huggingface/peft_adapters.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20U;
constexpr std::size_t kMostQuotedBytes = 1000;
constexpr const char* kRankPattern = "rank_pattern";
constexpr const char* kAlphaPattern = "alpha_pattern";

/// Fields that make something else of an adapter, or train something else, unless they are null, false or empty.
constexpr std::array kUnsupported{"use_dora",          "modules_to_save",   "lora_bias",
                                  "use_qalora",        "layer_replication", "trainable_token_indices",
                                  "target_parameters", "arrow_config",      "alora_invocation_tokens"};
/// Initial values that leave the base model as it is.
constexpr std::array kInitialValues{"gaussian", "eva", "orthogonal"};

bool is_empty(const OptionValue& value) {
  return std::visit(
      [](const auto& exact) {
        if constexpr (requires { exact.empty(); }) return exact.empty();
        return exact == std::decay_t<decltype(exact)>{};
      },
      value);
}

/// PEFT reads the keys of its patterns as regular expressions, of which plain names are the only ones here.
void require_plain(const std::string& field, const std::string& key) {
  const bool is_plain = std::all_of(key.begin(), key.end(), [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.' || letter == '-';
  });
  if (!is_plain)
    throw OptionError(field, "found the pattern \"" + key + "\"; accepted: the name of a module, or its end");
}

/// True if `key` is the module or its end.
bool names(const std::string& key, const std::string& module) { return module == key || module.ends_with("." + key); }

}  // namespace

PeftConfig::PeftConfig(const std::filesystem::path& folder) : path_(folder / kPeftConfig) {
  if (!std::filesystem::is_regular_file(path_)) {
    throw ConfigurationError("'" + folder.string() + "': has no " + kPeftConfig +
                             "; accepted: a folder with the adapters that PEFT has saved");
  }
  at_file([&] { read(); });
}

void PeftConfig::at_file(const std::function<void()>& work) const {
  const std::string place = "'" + path_.string() + "': ";
  try {
    work();
  } catch (const OptionError& error) {
    throw ConfigurationError(place + message_text(error.option() + ": " + error.what(), kMostQuotedBytes));
  } catch (const Error& error) {
    throw ConfigurationError(place + message_text(error.what(), kMostQuotedBytes));
  }
}

void PeftConfig::read() {
  fields_ = parse_huggingface_config(read_small_file(path_, kMostConfigBytes));
  require_supported();
  dropout_ = fields_.number("lora_dropout", 0);
  is_rank_stabilized_ = fields_.boolean("use_rslora", false);
  static_cast<void>(fields_.integer("r"));
  const auto listed = fields_.values().find("target_modules");
  const bool is_narrowed = fields_.has_value("exclude_modules") || fields_.has_value("layers_to_transform");
  if (listed == fields_.values().end() || !listed->second || is_narrowed) return;
  if (const auto* words = std::get_if<std::vector<std::string>>(&*listed->second)) targets_ = *words;
}

void PeftConfig::require_supported() const {
  fields_.require("peft_type", OptionValue(std::string("LORA")));
  fields_.require("bias", OptionValue(std::string("none")));
  for (const auto& [field, value] : fields_.values()) {
    const std::string name = field.substr(0, field.find('.'));
    const bool is_listed = std::find(kUnsupported.begin(), kUnsupported.end(), name) != kUnsupported.end();
    const bool is_use = name.starts_with("use_") && name != "use_rslora";
    if ((is_listed || is_use) && value && !is_empty(*value)) {
      throw OptionError(name, "found " + to_string(*value) + ", which Strata does not compute; accepted: none");
    }
    for (const char* pattern : {kRankPattern, kAlphaPattern}) {
      if (name == pattern && field.size() > name.size()) require_plain(name, field.substr(name.size() + 1));
    }
  }
  const auto start = fields_.values().find("init_lora_weights");
  const auto* word =
      start != fields_.values().end() && start->second ? std::get_if<std::string>(&*start->second) : nullptr;
  if (word != nullptr && std::find(kInitialValues.begin(), kInitialValues.end(), *word) == kInitialValues.end()) {
    throw OptionError("init_lora_weights",
                      "found \"" + *word +
                          "\", whose adapters belong to a base model with other weights; accepted: "
                          "true, false, gaussian, eva, orthogonal");
  }
}

std::string PeftConfig::field_of(const std::string& pattern, const std::string& module,
                                 const std::string& otherwise) const {
  const std::string begin = pattern + ".";
  std::string found;
  for (const auto& [field, value] : fields_.values()) {
    if (!field.starts_with(begin) || !value || !names(field.substr(begin.size()), module)) continue;
    // PEFT takes the first one of the file, whose order is lost here.
    if (!found.empty() && *value != *fields_.values().at(found)) {
      throw OptionError(pattern, "found '" + found.substr(begin.size()) + "' and '" + field.substr(begin.size()) +
                                     "' with different values, and both name '" + module + "'; accepted: one of them");
    }
    found = field;
  }
  return found.empty() ? otherwise : found;
}

bool PeftConfig::targets(const std::string& module) const {
  return std::any_of(targets_.begin(), targets_.end(), [&](const std::string& each) { return names(each, module); });
}

std::int64_t PeftConfig::rank(const std::string& module) const {
  std::int64_t rank = 0;
  at_file([&] { rank = fields_.integer(field_of(kRankPattern, module, "r")); });
  return rank;
}

double PeftConfig::scale(const std::string& module) const {
  const auto rank = static_cast<double>(this->rank(module));
  double alpha = 0;
  at_file([&] { alpha = fields_.number(field_of(kAlphaPattern, module, "lora_alpha"), 8); });
  return alpha / (is_rank_stabilized_ ? std::sqrt(rank) : rank);
}

}  // namespace strata::host

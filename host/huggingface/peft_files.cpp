#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "files/file_io.hpp"
#include "files/text_format.hpp"
#include "huggingface/hugging_face_files.hpp"
#include "huggingface/model_parameters.hpp"
#include "huggingface/peft_adapters.hpp"
#include "runtime/element.hpp"
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
  const bool is_plain = std::ranges::all_of(key, [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.' || letter == '-';
  });
  if (!is_plain)
    throw OptionError(field, "found the pattern \"" + key + "\"; accepted: the name of a module, or its end");
}

/// True if `key` is the module or its end.
bool names(const std::string& key, const std::string& module) { return module == key || module.ends_with("." + key); }

struct Ending {
  const char* text;
  bool is_a;
  bool is_embedding;
};
constexpr std::array<Ending, 4> kEndings{{{".lora_A.weight", true, false},
                                          {".lora_B.weight", false, false},
                                          {".lora_embedding_A", true, true},
                                          {".lora_embedding_B", false, true}}};

std::filesystem::path weights_of(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / kPeftWeights)) return folder / kPeftWeights;
  const bool is_pickled = std::filesystem::exists(folder / "adapter_model.bin");
  throw ConfigurationError(
      "'" + folder.string() + "': found " +
      (is_pickled ? "the pickled adapter_model.bin, which could run its author's code" : "no tensors") +
      "; accepted: " + kPeftWeights);
}

/// Names of tensors in a message of the file are printable.
std::unique_ptr<const SafetensorsFile> open(const std::filesystem::path& path) {
  try {
    return std::make_unique<const SafetensorsFile>(path);
  } catch (const RuntimeError& error) {
    throw RuntimeError(message_text(error.what(), 2000));
  }
}

std::vector<float> values_of(const SafetensorsFile::Entry& entry) {
  std::vector<float> values(static_cast<std::size_t>(element_count(entry.tensor.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(load_element(entry.tensor.dtype, entry.data.data(), static_cast<std::int64_t>(i)));
  }
  return values;
}

LowRankFactors factors_of(const SafetensorsFile::Entry& a, const SafetensorsFile::Entry& b, bool is_embedding) {
  LowRankFactors factors{a.tensor.shape[0], a.tensor.shape[1], b.tensor.shape[0], values_of(a), values_of(b)};
  if (!is_embedding) return factors;
  // PEFT has the factors of the transposed table.
  std::vector<float> rows = transposed(factors.a, factors.rank);
  factors.a = transposed(factors.b, factors.outputs);
  factors.b = std::move(rows);
  std::swap(factors.inputs, factors.outputs);
  return factors;
}

/// Outputs of a tensor that belong to one parameter.
struct OutputRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// For each column of B, the part whose outputs it reaches. Empty unless each column reaches exactly one: then the
/// adapter is of several parts that had one each, as write_peft_adapters() joins them.
std::vector<std::size_t> owners_of(const LowRankFactors& whole, const std::vector<OutputRange>& parts) {
  std::vector<std::size_t> owners;
  for (std::int64_t column = 0; column < whole.rank; ++column) {
    std::vector<std::size_t> reached;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const float* first = whole.b.data() + parts[part].begin * whole.rank + column;
      bool reaches = false;
      for (std::int64_t i = 0; i < parts[part].count && !reaches; ++i) reaches = first[i * whole.rank] != 0;
      if (reaches) reached.push_back(part);
    }
    if (reached.size() != 1) return {};
    owners.push_back(reached.front());
  }
  return owners;
}

/// The factors of one part: its rows of B, with the columns of which it is the owner, or all without owners.
LowRankFactors part_of(const LowRankFactors& whole, const OutputRange& range, std::size_t part,
                       const std::vector<std::size_t>& owners) {
  std::vector<std::int64_t> columns;
  for (std::int64_t column = 0; column < whole.rank; ++column) {
    if (owners.empty() || owners[static_cast<std::size_t>(column)] == part) columns.push_back(column);
  }
  LowRankFactors factors{std::ssize(columns), whole.inputs, range.count, {}, {}};
  for (const std::int64_t column : columns) {
    const auto row = whole.a.begin() + column * whole.inputs;
    factors.a.insert(factors.a.end(), row, row + whole.inputs);
  }
  for (std::int64_t output = range.begin; output < range.begin + range.count; ++output) {
    for (const std::int64_t column : columns) {
      factors.b.push_back(whole.b[static_cast<std::size_t>(output * whole.rank + column)]);
    }
  }
  return factors;
}

/// The parts of the tensor `name`, with or without the optional beginning of its name. Null if there is none.
const std::vector<MappedParameter>* find_parts(const HuggingFaceLayout& layout, const std::string& name) {
  auto found = layout.by_tensor().find(name);
  if (found == layout.by_tensor().end()) {
    found = layout.by_tensor().find(layout.description().optional_prefix + name);
  }
  return found == layout.by_tensor().end() ? nullptr : &found->second;
}

/// Reads the adapters of a folder of PEFT.
class PeftReader {
 public:
  PeftReader(const std::filesystem::path& folder, const HuggingFaceLayout& layout)
      : path_(folder / kPeftWeights), config_(folder), layout_(layout), file_(open(weights_of(folder))) {}

  std::map<std::string, ReadTerm> read() {
    find_modules();
    require_targets();
    for (const auto& [name, module] : modules_) add_module(name, module);
    if (!problems_.empty()) {
      throw RuntimeError("'" + path_.string() +
                         "': its tensors are not those of adapters of the model:" + problems_.text());
    }
    if (terms_.empty()) throw RuntimeError("'" + path_.string() + "': found no tensors; accepted: those of adapters");
    return std::move(terms_);
  }

 private:
  /// The two tensors of a module.
  struct Module {
    const SafetensorsFile::Entry* a = nullptr;
    const SafetensorsFile::Entry* b = nullptr;
    bool is_embedding = false;
  };

  void add_tensor(const std::string& name, const SafetensorsFile::Entry& entry) {
    if (name.ends_with(".base_layer.weight")) {
      return problems_.add("unexpected: '" + name + "', a weight of the base model; accepted: adapters saved by " +
                           "PEFT's save_pretrained(..., save_embedding_layers=False)");
    }
    const auto* ending = std::ranges::find_if(kEndings, [&](const Ending& each) { return name.ends_with(each.text); });
    if (!name.starts_with(kPeftPrefix) || ending == kEndings.end()) return problems_.add("unexpected: '" + name + "'");
    if (entry.tensor.shape.size() != 2 || !is_floating_point(entry.tensor.dtype)) {
      return problems_.add("unexpected: '" + name + "' is " + std::string(to_string(entry.tensor.dtype)) + " " +
                           shape_text(entry.tensor.shape) + "; accepted: a matrix of f32, bf16 or f16");
    }
    const std::size_t begin = std::string_view(kPeftPrefix).size();
    Module& module = modules_[name.substr(begin, name.size() - begin - std::string_view(ending->text).size())];
    module.is_embedding = ending->is_embedding;
    (ending->is_a ? module.a : module.b) = &entry;
  }

  /// Finds the modules that are whole.
  void find_modules() {
    for (const auto& [name, entry] : file_->tensors()) add_tensor(name, entry);
    for (const auto& each : file_->foreign_types()) problems_.add("unexpected: '" + each.first + "' is " + each.second);
    std::erase_if(modules_, [&](const auto& each) {
      const auto& [name, module] = each;
      if (module.a != nullptr && module.b != nullptr) return false;
      const bool lacks_a = module.a == nullptr;
      const auto* ending = std::ranges::find_if(kEndings, [&, &found = module](const Ending& one) {
        return one.is_a == lacks_a && one.is_embedding == found.is_embedding;
      });
      problems_.add("missing: '" + std::string(kPeftPrefix) + name + ending->text + "'");
      return true;
    });
  }

  /// Notes the modules of the model that should have an adapter and have none.
  void require_targets() {
    const std::string suffix = ".weight";
    const std::string& prefix = layout_.description().optional_prefix;
    for (const auto& [tensor, parts] : layout_.by_tensor()) {
      if (!tensor.ends_with(suffix)) continue;
      const std::string module = tensor.substr(0, tensor.size() - suffix.size());
      const bool has_short_name = module.starts_with(prefix) && modules_.contains(module.substr(prefix.size()));
      if (!config_.targets(module) || modules_.contains(module) || has_short_name) continue;
      problems_.add("missing: the adapter of '" + module + "', which " + kPeftConfig + " lists in target_modules");
    }
  }

  void add_module(const std::string& name, const Module& module) {
    const std::int64_t rank = module.a->tensor.shape[0];
    if (module.b->tensor.shape[1] != rank || config_.rank(name) != rank) {
      return problems_.add("wrong rank: the adapter of '" + name + "' has A " + shape_text(module.a->tensor.shape) +
                           " and B " + shape_text(module.b->tensor.shape) + "; " + kPeftConfig + " says rank " +
                           std::to_string(config_.rank(name)));
    }
    const std::vector<MappedParameter>* parts = find_parts(layout_, name + ".weight");
    if (parts == nullptr) return problems_.add("unexpected: an adapter of '" + name + "', which the model lacks");
    const LowRankFactors whole = factors_of(*module.a, *module.b, module.is_embedding);
    const auto add = [&](const MappedParameter& part, LowRankFactors factors) {
      terms_[part.where.parameter] = {std::move(factors), config_.scale(name), config_.dropout(), name};
    };
    if (parts->size() == 1) return add(parts->front(), whole);
    const std::map<std::string, HuggingFacePlace> places = hugging_face_places(layout_);
    std::vector<OutputRange> ranges;
    for (const MappedParameter& part : *parts) {
      const auto place = places.find(part.where.parameter);
      if (place == places.end() || place->second.outputs != whole.outputs) {
        return problems_.add("wrong shape: the adapter of '" + name + "' has B " + shape_text(module.b->tensor.shape));
      }
      ranges.push_back({place->second.first_output, part.where.slice_size});
    }
    const std::vector<std::size_t> owners = owners_of(whole, ranges);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      LowRankFactors factors = part_of(whole, ranges[i], i, owners);
      if (factors.rank > 0) add((*parts)[i], std::move(factors));
    }
  }

  std::filesystem::path path_;
  PeftConfig config_;
  const HuggingFaceLayout& layout_;
  std::unique_ptr<const SafetensorsFile> file_;
  std::map<std::string, Module> modules_;
  std::map<std::string, ReadTerm> terms_;
  ProblemList problems_;
};

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
  fields_ = parse_hugging_face_config(read_small_file(path_, kMostConfigBytes));
  require_supported();
  dropout_ = fields_.number("lora_dropout", 0);
  is_rank_stabilized_ = fields_.boolean("use_rslora", false);
  static_cast<void>(fields_.integer("r"));
  const bool is_narrowed = fields_.has_value("exclude_modules") || fields_.has_value("layers_to_transform");
  const auto* listed = std::get_if<std::vector<std::string>>(fields_.find("target_modules"));
  if (listed != nullptr && !is_narrowed) targets_ = *listed;
}

void PeftConfig::require_supported() const {
  fields_.require("peft_type", OptionValue(std::string("LORA")));
  fields_.require("bias", OptionValue(std::string("none")));
  for (const auto& [field, value] : fields_.values()) {
    const std::string name = field.substr(0, field.find('.'));
    const bool is_listed = contains(kUnsupported, name);
    const bool is_use = name.starts_with("use_") && name != "use_rslora";
    if ((is_listed || is_use) && value && !is_empty(*value)) {
      throw OptionError(name, "found " + to_string(*value) + ", which Strata does not compute; accepted: none");
    }
    for (const char* pattern : {kRankPattern, kAlphaPattern}) {
      if (name == pattern && field.size() > name.size()) require_plain(name, field.substr(name.size() + 1));
    }
  }
  const auto* word = std::get_if<std::string>(fields_.find("init_lora_weights"));
  if (word != nullptr && !contains(kInitialValues, *word)) {
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
  return std::ranges::any_of(targets_, [&](const std::string& each) { return names(each, module); });
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

std::map<std::string, ReadTerm> read_peft_terms(const std::filesystem::path& folder, const HuggingFaceLayout& layout) {
  return PeftReader(folder, layout).read();
}

}  // namespace strata::host

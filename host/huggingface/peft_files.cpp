#include "huggingface/peft_files.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "files/message_text.hpp"
#include "huggingface/model_parameters.hpp"
#include "huggingface/peft_adapters.hpp"
#include "runtime/element.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

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

}  // namespace

PeftFiles::PeftFiles(const std::filesystem::path& folder)
    : path_(folder / kPeftWeights), config_(folder), file_(open(weights_of(folder))) {}

void PeftFiles::add_tensor(const std::string& name, std::map<std::string, Module>& modules,
                           ProblemList& problems) const {
  const auto unexpected = [&] { problems.add("unexpected: '" + name + "'"); };
  if (!name.starts_with(kPeftPrefix)) return unexpected();
  const auto* ending =
      std::find_if(kEndings.begin(), kEndings.end(), [&](const Ending& each) { return name.ends_with(each.text); });
  if (name.ends_with(".base_layer.weight")) {
    return problems.add("unexpected: '" + name + "', a weight of the base model; accepted: adapters saved by PEFT's " +
                        "save_pretrained(..., save_embedding_layers=False)");
  }
  if (ending == kEndings.end()) return unexpected();
  const SafetensorsFile::Entry& entry = file_->tensors().at(name);
  if (entry.tensor.shape.size() != 2 || !is_floating_point(entry.tensor.dtype)) {
    return problems.add("unexpected: '" + name + "' is " + std::string(to_string(entry.tensor.dtype)) + " " +
                        shape_text(entry.tensor.shape) + "; accepted: a matrix of f32, bf16 or f16");
  }
  const std::size_t begin = std::string_view(kPeftPrefix).size();
  Module& module = modules[name.substr(begin, name.size() - begin - std::string_view(ending->text).size())];
  module.is_embedding = ending->is_embedding;
  (ending->is_a ? module.a : module.b) = &entry;
}

std::map<std::string, PeftFiles::Module> PeftFiles::modules(ProblemList& problems) const {
  std::map<std::string, Module> found;
  for (const auto& each : file_->tensors()) add_tensor(each.first, found, problems);
  for (const auto& each : file_->foreign_types()) problems.add("unexpected: '" + each.first + "' is " + each.second);
  std::erase_if(found, [&](const auto& each) {
    const auto& [name, module] = each;
    if (module.a != nullptr && module.b != nullptr) return false;
    const bool lacks_a = module.a == nullptr;
    const auto* ending = std::find_if(kEndings.begin(), kEndings.end(), [&, &of = module](const Ending& one) {
      return one.is_a == lacks_a && one.is_embedding == of.is_embedding;
    });
    problems.add("missing: '" + std::string(kPeftPrefix) + name + ending->text + "'");
    return true;
  });
  return found;
}

void PeftFiles::require_targets(const HuggingFaceLayout& layout, const std::map<std::string, Module>& found,
                                ProblemList& problems) const {
  const std::string suffix = ".weight";
  for (const auto& [tensor, parts] : layout.by_tensor()) {
    if (!tensor.ends_with(suffix)) continue;
    const std::string module = tensor.substr(0, tensor.size() - suffix.size());
    const std::string& prefix = layout.description().optional_prefix;
    const bool has_short_name = module.starts_with(prefix) && found.contains(module.substr(prefix.size()));
    if (!config_.targets(module) || found.contains(module) || has_short_name) continue;
    problems.add("missing: the adapter of '" + module + "', which " + kPeftConfig + " lists in target_modules");
  }
}

void PeftFiles::add_module(const std::string& name, const Module& module, const HuggingFaceLayout& layout,
                           std::map<std::string, ReadTerm>& terms, ProblemList& problems) const {
  const std::int64_t rank = module.a->tensor.shape[0];
  if (module.b->tensor.shape[1] != rank || config_.rank(name) != rank) {
    return problems.add("wrong rank: the adapter of '" + name + "' has A " + shape_text(module.a->tensor.shape) +
                        " and B " + shape_text(module.b->tensor.shape) + "; " + kPeftConfig + " says rank " +
                        std::to_string(config_.rank(name)));
  }
  const std::vector<MappedParameter>* parts = find_parts(layout, name + ".weight");
  if (parts == nullptr) return problems.add("unexpected: an adapter of '" + name + "', which the model lacks");
  const LowRankFactors whole = factors_of(*module.a, *module.b, module.is_embedding);
  const auto add = [&](const MappedParameter& part, LowRankFactors factors) {
    terms[part.where.parameter] = {std::move(factors), config_.scale(name), config_.dropout(), name};
  };
  if (parts->size() == 1) return add(parts->front(), whole);
  const std::map<std::string, HuggingFacePlace> places = huggingface_places(layout);
  std::vector<OutputRange> ranges;
  for (const MappedParameter& part : *parts) {
    const auto place = places.find(part.where.parameter);
    if (place == places.end() || place->second.outputs != whole.outputs) {
      return problems.add("wrong shape: the adapter of '" + name + "' has B " + shape_text(module.b->tensor.shape));
    }
    ranges.push_back({place->second.first_output, part.where.slice_size});
  }
  const std::vector<std::size_t> owners = owners_of(whole, ranges);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    LowRankFactors factors = part_of(whole, ranges[i], i, owners);
    if (factors.rank > 0) add((*parts)[i], std::move(factors));
  }
}

std::map<std::string, ReadTerm> PeftFiles::terms(const HuggingFaceLayout& layout) const {
  ProblemList problems;
  std::map<std::string, ReadTerm> terms;
  const std::map<std::string, Module> found = modules(problems);
  require_targets(layout, found, problems);
  for (const auto& [name, module] : found) add_module(name, module, layout, terms, problems);
  if (!problems.empty()) {
    throw RuntimeError("'" + path_.string() +
                       "': its tensors are not those of adapters of the model:" + problems.text());
  }
  if (terms.empty()) throw RuntimeError("'" + path_.string() + "': found no tensors; accepted: those of adapters");
  return terms;
}

}  // namespace strata::host

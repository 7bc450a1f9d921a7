#include "huggingface/peft_adapters.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/file_io.hpp"
#include "files/json.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// A module of PEFT with the terms of its tensor.
struct PeftModule {
  struct Part {
    const LowRankTerm* term = nullptr;
    HuggingFacePlace place;
  };

  /// Published name, such as "model.layers.0.self_attn.q_proj".
  std::string name;
  std::vector<Part> parts;
  /// PEFT stores the factors of an embedding's transposed matrix.
  bool is_embedding = false;

  [[nodiscard]] const LowRankTerm& first() const { return *parts.front().term; }
  [[nodiscard]] std::string tensor(const char* side) const {
    const std::string of = kPeftPrefix + name + ".lora_";
    return is_embedding ? of + "embedding_" + side : of + side + ".weight";
  }
};

/// Appends the factors of a part of a tensor: its rank behind the others, its outputs where the tensor has them. The
/// product of the joined factors is then the sum of the parts' products.
void append(const LowRankFactors& part, const HuggingFacePlace& place, LowRankFactors& whole) {
  const std::int64_t rank = whole.rank + part.rank;
  std::vector<float> b(static_cast<std::size_t>(whole.outputs * rank));
  for (std::int64_t o = 0; o < whole.outputs; ++o) {
    const auto row = b.begin() + o * rank;
    std::copy_n(whole.b.begin() + o * whole.rank, whole.rank, row);
    const std::int64_t own = o - place.first_output;
    if (own >= 0 && own < part.outputs) std::copy_n(part.b.begin() + own * part.rank, part.rank, row + whole.rank);
  }
  whole.b = std::move(b);
  whole.a.insert(whole.a.end(), part.a.begin(), part.a.end());
  whole.rank = rank;
}

class PeftWriter {
 public:
  explicit PeftWriter(const PeftRequest& request) : request_(request), graph_(request.terms.graph()) {
    for (const LowRankTerm& term : request.terms.terms()) add(term);
    if (modules_.empty()) throw ConfigurationError("the checkpoint has no adapters; accepted: one of a run with lora");
    require_one_dropout();
    require_no_other_training();
  }

  ModelSummary write(const std::filesystem::path& folder) {
    const ModelSummary summary = write_tensors(folder / kPeftWeights);
    replace_file(folder / kPeftConfig, json_text(config(), 2) + "\n");
    return summary;
  }

 private:
  void add(const LowRankTerm& term) {
    const auto found = request_.places.find(term.parameter);
    const std::string suffix = ".weight";
    if (found == request_.places.end() || !found->second.tensor.ends_with(suffix)) {
      throw refused(term, " is no module of Hugging Face's model");
    }
    const HuggingFacePlace& place = found->second;
    const std::string name = place.tensor.substr(0, place.tensor.size() - suffix.size());
    // An adapter of PEFT belongs to one of the two.
    if (term.is_table && term.is_matrix) {
      throw refused(term, " is an embedding and a projection at once, which PEFT's format lacks");
    }
    const auto known = std::ranges::find(modules_, name, &PeftModule::name);
    if (known == modules_.end()) {
      modules_.push_back({name, {{&term, place}}, term.is_table});
    } else if (known->first().scale != term.scale) {
      throw refused(term, " is part of a tensor whose other adapters have another scale");
    } else {
      known->parts.push_back({&term, place});
    }
  }

  static ConfigurationError refused(const LowRankTerm& term, const std::string& why) {
    return ConfigurationError("parameter '" + term.parameter + "' with adapters" + why +
                              "; accepted: an export of merged weights");
  }

  void require_one_dropout() const {
    for (const PeftModule& module : modules_) {
      const auto is_alike = [&](const PeftModule::Part& part) {
        return part.term->dropout == modules_.front().first().dropout;
      };
      if (std::ranges::all_of(module.parts, is_alike)) continue;
      throw ConfigurationError("adapters have different dropout, for which PEFT's format has one number");
    }
  }

  void require_no_other_training() const {
    for (const Parameter& parameter : graph_.parameters) {
      if (parameter.role != ParameterRole::trained || request_.terms.is_factor(parameter.name)) continue;
      throw ConfigurationError("parameter '" + parameter.name +
                               "' was trained besides the adapters, so adapters alone are not the whole result; "
                               "accepted: an export of merged weights");
    }
  }

  ModelSummary write_tensors(const std::filesystem::path& path) {
    std::vector<SafetensorsTensor> tensors;
    std::map<std::string, std::vector<float>> values;
    for (const PeftModule& module : modules_) {
      LowRankFactors factors = read(module);
      if (module.is_embedding) {
        std::swap(factors.a, factors.b);
        std::swap(factors.inputs, factors.outputs);
        factors.a = transposed(factors.a, factors.inputs);
        factors.b = transposed(factors.b, factors.rank);
      }
      tensors.push_back({module.tensor("A"), DType::f32, {factors.rank, factors.inputs}});
      tensors.push_back({module.tensor("B"), DType::f32, {factors.outputs, factors.rank}});
      values[module.tensor("A")] = std::move(factors.a);
      values[module.tensor("B")] = std::move(factors.b);
    }
    sort_for_safetensors(tensors);
    OutputFile file(path);
    const std::string header = safetensors_header(tensors, {{"format", "pt"}});
    file.write(header.data(), header.size());
    ModelSummary summary{.tensors = tensors.size(), .files = 1};
    for (const SafetensorsTensor& tensor : tensors) {
      const std::vector<float>& data = values.at(tensor.name);
      file.write(data.data(), data.size() * sizeof(float));
      summary.parameters += element_count(tensor.shape);
      summary.bytes += tensor.bytes();
    }
    file.finish();
    return summary;
  }

  [[nodiscard]] LowRankFactors read(const PeftModule& module) const {
    LowRankFactors whole;
    for (const PeftModule::Part& part : module.parts) {
      LowRankFactors factors = request_.terms.read(*part.term, request_.read);
      if (part.place.outputs == 0) return factors;
      whole.inputs = factors.inputs;
      whole.outputs = part.place.outputs;
      append(factors, part.place, whole);
    }
    return whole;
  }

  [[nodiscard]] std::int64_t rank_of(const PeftModule& module) const {
    std::int64_t rank = 0;
    for (const PeftModule::Part& part : module.parts) rank += graph_.sizes.at(part.term->rank);
    return rank;
  }
  /// PEFT multiplies the product by alpha / rank.
  [[nodiscard]] double alpha_of(const PeftModule& module) const {
    return module.first().scale * static_cast<double>(rank_of(module));
  }

  [[nodiscard]] nlohmann::json config() const {
    const PeftModule& first = modules_.front();
    nlohmann::json ranks = nlohmann::json::object();
    nlohmann::json alphas = nlohmann::json::object();
    std::vector<std::string> targets;
    for (const PeftModule& module : modules_) {
      targets.push_back(module.name);
      if (rank_of(module) != rank_of(first)) ranks[module.name] = rank_of(module);
      if (alpha_of(module) != alpha_of(first)) alphas[module.name] = alpha_of(module);
    }
    nlohmann::json config{{"peft_type", "LORA"},
                          {"task_type", "CAUSAL_LM"},
                          {"base_model_name_or_path", nullptr},
                          {"r", rank_of(first)},
                          {"lora_alpha", alpha_of(first)},
                          {"lora_dropout", first.first().dropout},
                          {"target_modules", targets},
                          {"rank_pattern", ranks},
                          {"alpha_pattern", alphas},
                          {"bias", "none"},
                          {"fan_in_fan_out", false},
                          {"use_rslora", false},
                          {"init_lora_weights", true},
                          {"modules_to_save", nullptr},
                          {"inference_mode", true}};
    if (!request_.base_model.empty()) config["base_model_name_or_path"] = request_.base_model;
    return config;
  }

  const PeftRequest& request_;
  const Graph& graph_;
  std::vector<PeftModule> modules_;
};

}  // namespace

std::map<std::string, HuggingFacePlace> hugging_face_places(const HuggingFaceLayout& layout) {
  std::map<std::string, HuggingFacePlace> places;
  for (const auto& [tensor, parts] : layout.by_tensor()) {
    for (const auto& [where, view, first] : parts) {
      if (where.parameter_size > 0) continue;
      const bool is_whole = parts.size() == 1;
      const int last = static_cast<int>(where.shape.size()) - 1;
      if (!is_whole && where.slice_dim != (where.transposed ? 0 : last)) continue;
      const std::int64_t outputs = is_whole ? 0 : where.shape.at(static_cast<std::size_t>(where.slice_dim));
      places[where.parameter] = {tensor, is_whole ? 0 : where.slice_begin, outputs};
    }
  }
  return places;
}

ModelSummary write_peft_adapters(const std::filesystem::path& folder, const PeftRequest& request) {
  return PeftWriter(request).write(folder);
}

}  // namespace strata::host

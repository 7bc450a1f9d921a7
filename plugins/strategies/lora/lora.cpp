#include "lora.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <vector>

#include "adapter.hpp"
#include "parameter_uses.hpp"
#include "strata/error.hpp"

namespace lora {

using namespace strata;

namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_one(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

/// Chooses the parameters that get adapters.
class Selection {
 public:
  Selection(const Graph& graph, const Settings& settings) : graph_(graph), settings_(settings), uses_(graph) {
    for (const LowRankTerm& term : graph.low_rank_terms) {
      adapters_.insert({term.a, term.b});
      adapted_.insert(term.parameter);
    }
  }

  [[nodiscard]] const ParameterUses& uses() const { return uses_; }

  /// Parameters of the model that can be trained or frozen.
  [[nodiscard]] bool is_of_model(const Parameter& parameter) const {
    return parameter.role != ParameterRole::constant && !adapters_.contains(parameter.name);
  }

  void require_matches(const char* option, const std::vector<std::string>& patterns) const {
    std::vector<std::string> names;
    for (const Parameter& parameter : graph_.parameters) {
      if (is_of_model(parameter)) names.push_back(parameter.name);
    }
    for (const std::string& pattern : patterns) {
      const bool found =
          std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches(pattern, name); });
      if (found) continue;
      const std::string similar = nearest(pattern, names);
      throw OptionError(option, "found \"" + pattern +
                                    "\", which matches no parameter; accepted: patterns of names such "
                                    "as \"" +
                                    (similar.empty() ? names.front() : similar) + "\"");
    }
  }

  [[nodiscard]] std::vector<Parameter> parameters() const {
    std::vector<Parameter> chosen;
    for (const Parameter& parameter : graph_.parameters) {
      if (is_of_model(parameter) && is_chosen(parameter)) chosen.push_back(parameter);
    }
    if (chosen.empty() && settings_.targets.empty()) {
      throw OptionError(
          "targets",
          "found none, and no parameter without adapters is left that only matrix products read; accepted: "
          "patterns of names");
    }
    return chosen;
  }

 private:
  [[nodiscard]] bool is_chosen(const Parameter& parameter) const {
    const std::string& name = parameter.name;
    const bool is_trained = matches_one(settings_.train, name);
    if (settings_.targets.empty()) {
      return !is_trained && !adapted_.contains(name) && uses_.is_matrix_of_products(parameter);
    }
    if (!matches_one(settings_.targets, name)) return false;
    if (is_trained) {
      throw OptionError("train", "found patterns of parameter '" + name + "' here and in `targets`; accepted: in one");
    }
    if (adapted_.contains(name)) {
      throw OptionError("targets",
                        "found a pattern of parameter '" + name + "', which has adapters of an earlier strategy");
    }
    // Generation reads a part of the model only.
    if (graph_.mode == GraphMode::evaluation && uses_.of(parameter).empty()) return false;
    std::string reason;
    if (uses_.sides(parameter, reason)) return true;
    throw OptionError("targets", "found a pattern of parameter '" + name + "', of which " + reason +
                                     "; accepted: patterns of matrices that products and embeddings read");
  }

  const Graph& graph_;
  const Settings& settings_;
  ParameterUses uses_;
  std::set<std::string> adapters_;
  std::set<std::string> adapted_;
};

/// Freezes the parameters of the model, except those to train.
void freeze(Graph& graph, const std::vector<std::string>& train) {
  for (Parameter& parameter : graph.parameters) {
    if (parameter.role == ParameterRole::trained && !matches_one(train, parameter.name)) {
      parameter.role = ParameterRole::frozen;
    }
  }
}

}  // namespace

void Lora::rewrite_forward(Graph& graph, const OpRegistry& registry) const {
  const Selection selection(graph, settings_);
  selection.require_matches("targets", settings_.targets);
  selection.require_matches("train", settings_.train);
  const bool is_first = graph.low_rank_terms.empty();
  if (!is_first && !settings_.train.empty()) {
    throw OptionError("train",
                      "found patterns, but an earlier lora strategy has frozen the model; accepted: in the "
                      "first one");
  }
  const std::vector<Parameter> chosen = selection.parameters();
  if (is_first) freeze(graph, settings_.train);
  AdapterBuilder builder(graph, registry, settings_);
  for (const Parameter& parameter : chosen) {
    std::string reason;
    builder.add(parameter, *selection.uses().sides(parameter, reason), selection.uses().of(parameter));
  }
  builder.place();
}

}  // namespace lora

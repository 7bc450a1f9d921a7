#include "precision.hpp"

#include <algorithm>

#include "mixed_types.hpp"
#include "strata/error.hpp"

namespace precision {
namespace {

using namespace strata;

bool has_parameter_of(const Graph& graph, bool (*holds)(DType)) {
  return std::any_of(graph.parameters.begin(), graph.parameters.end(),
                     [&](const Parameter& parameter) { return holds(graph.type(parameter.value).dtype); });
}

bool is_f64(DType type) { return type == DType::f64; }
bool is_short(DType type) { return is_floating_point(type) && size_of(type) < size_of(DType::f32); }

}  // namespace

void MixedPrecision::rewrite_forward(Graph& graph, const OpRegistry& registry) const {
  if (graph.loss_scaling && settings_.loss_scaling) {
    throw ConfigurationError("a strategy before this one scales the loss already; set loss_scale = \"off\" in one");
  }
  if (settings_.loss_scaling) graph.loss_scaling = settings_.loss_scaling;
  if (has_parameter_of(graph, is_f64)) return;
  if (has_parameter_of(graph, is_short)) {
    throw ConfigurationError("parameters have a type shorter than f32 already; one strategy chooses types");
  }
  mix_types(graph, registry, settings_.compute, settings_.reduce);
}

}  // namespace precision

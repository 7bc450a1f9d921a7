#include "reports/parameter_estimate.hpp"

#include <algorithm>
#include <map>

#include "reports/program_summary.hpp"

namespace strata::host {
namespace {

/// Parameters of the module with the most. The module is the name without its last part: "h.0.mlp.c_fc".
std::int64_t largest_module(const Graph& graph) {
  std::map<std::string, std::int64_t> modules;
  for (const Parameter& parameter : graph.parameters) {
    if (!is_counted(parameter)) continue;
    modules[parameter.name.substr(0, parameter.name.rfind('.'))] += element_count(graph.shape(parameter.value));
  }
  std::int64_t largest = 0;
  for (const auto& [name, count] : modules) largest = std::max(largest, count);
  return largest;
}

}  // namespace

ParameterEstimate estimate_parameters(const Graph& graph, int devices) {
  ParameterEstimate estimate;
  estimate.parameters = parameter_count(graph);
  estimate.largest_layer = largest_module(graph);
  const auto count = static_cast<double>(estimate.parameters);
  const auto largest = static_cast<double>(estimate.largest_layer);
  const double shared = count / devices;
  estimate.rows = {{"parameters in f32", "4P", 4 * count},
                   {"ZeRO-2", "4P + 16P/N", 4 * count + 16 * shared},
                   {"ZeRO-2, newer DeepSpeed", "2P + 18P/N", 2 * count + 18 * shared},
                   {"ZeRO-2, optimizer in host memory", "2P", 2 * count},
                   {"ZeRO-3", "4L + 18P/N", 4 * largest + 18 * shared},
                   {"ZeRO-3, optimizer in host memory", "4L + 2P/N", 4 * largest + 2 * shared},
                   {"ZeRO-3, parameters and optimizer in host memory", "4L", 4 * largest}};
  return estimate;
}

}  // namespace strata::host

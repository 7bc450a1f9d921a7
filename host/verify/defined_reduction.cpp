#include "verify/defined_reduction.hpp"

#include <cmath>
#include <utility>

#include "strata/gradient_work.hpp"

namespace strata::host {

ParameterValues DefinedReduction::run(const std::vector<ParameterValues>& gradients, double unit) {
  const NamedStrategy& reducer = replicas_.strategies.at(static_cast<std::size_t>(replicas_.reducer));
  std::map<std::string, States> states = states_;
  ParameterValues mean;
  for (const StoredParameter& parameter : program_.parameters) {
    if (!is_updated(parameter)) continue;
    std::vector<std::vector<double>> shares;
    for (const ParameterValues& of_worker : gradients) {
      shares.push_back(of_worker.at(parameter.name));
      for (double& each : shares.back()) each *= unit;
    }
    const std::size_t elements = shares.front().size();
    std::vector<double>& sum = mean[parameter.name];
    sum.assign(elements, 0.0);
    DefinedGradient defined{.parameter = groups_.of(parameter.name).parameter,
                            .shares = shares,
                            .pieces = replicas_.pieces.at(parameter.name),
                            .states = states[parameter.name],
                            .gradient = sum};
    reducer.ask<GradientHooks>("define_gradient", [&](const GradientHooks& by) { by.define_gradient(defined); });
    if (sum.size() != elements) {
      throw reducer.error("defines a gradient of " + std::to_string(sum.size()) +
                          " elements; accepted: " + std::to_string(elements));
    }
  }
  if (unit > 0 && std::isfinite(norm(mean))) states_ = std::move(states);
  return mean;
}

double DefinedReduction::norm(const ParameterValues& gradients) {
  double squares = 0;
  for (const auto& [name, gradient] : gradients) {
    for (const double each : gradient) squares += each * each;
  }
  return std::sqrt(squares);
}

}  // namespace strata::host

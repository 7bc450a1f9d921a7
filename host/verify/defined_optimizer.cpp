#include "verify/defined_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/element.hpp"

namespace strata::host {

std::vector<double> read_values(Executor& executor, BufferId id) {
  const Buffer& buffer = executor.program().buffer(id);
  std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.bytes()));
  executor.read(id, bytes.data());
  std::vector<double> values(static_cast<std::size_t>(buffer.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load_element(buffer.dtype, bytes.data(), static_cast<std::int64_t>(i));
  }
  return values;
}

void write_values(Executor& executor, BufferId id, const std::vector<double>& values) {
  const Buffer& buffer = executor.program().buffer(id);
  std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.bytes()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(buffer.dtype, bytes.data(), static_cast<std::int64_t>(i), values[i]);
  }
  executor.write(id, bytes.data());
}

bool is_updated(const StoredParameter& parameter) {
  return parameter.role == ParameterRole::trained && parameter.gradient >= 0;
}

namespace {

void require_size(const OptimizerGroup& group, const std::string& what, std::size_t found, std::size_t expected) {
  if (found == expected) return;
  throw PluginError(group.origin, "", "",
                    "defines an update that leaves " + what + " with " + std::to_string(found) +
                        " elements; accepted: " + std::to_string(expected));
}

/// Elements of a state of the parameter with the values `value`.
std::size_t elements_of(const OptimizerState& state, const Buffer& value) {
  if (!state.dims) return static_cast<std::size_t>(value.elements());
  Shape shape;
  for (const Dim& dim : *state.dims)
    shape.push_back(value.shape.at(static_cast<std::size_t>(find_dim(value.dims, dim))));
  return static_cast<std::size_t>(element_count(shape));
}

}  // namespace

ParameterValues read_gradients(Executor& executor) {
  ParameterValues gradients;
  for (const StoredParameter& parameter : executor.program().parameters) {
    if (is_updated(parameter)) gradients[parameter.name] = read_values(executor, parameter.gradient);
  }
  return gradients;
}

void DefinedOptimizer::update(const Program& program, const ParameterValues& gradients, const StepContext& context,
                              ParameterValues& values) {
  for (const StoredParameter& parameter : program.parameters) {
    if (!is_updated(parameter)) continue;
    update(program, parameter, gradients.at(parameter.name), context, values.at(parameter.name));
  }
}

void DefinedOptimizer::update(const Program& program, const StoredParameter& parameter, std::vector<double> gradient,
                              const StepContext& context, std::vector<double>& values) {
  const AssignedUpdate& assigned = groups_.of(parameter.name);
  const OptimizerGroup& group = settings_.groups.at(static_cast<std::size_t>(assigned.group));
  const std::size_t elements = values.size();
  const double largest = settings_.clip_value > 0 ? settings_.clip_value : std::numeric_limits<double>::infinity();
  for (double& each : gradient) each = std::clamp(each, -largest, largest);
  auto& states = states_[parameter.name];
  const Buffer& value = program.buffer(parameter.value);
  for (const OptimizerState& state : assigned.states) {
    states[state.name].resize(elements_of(state, value));
  }
  DefinedUpdate defined{.parameter = assigned.parameter,
                        .shape = value.shape,
                        .values = values,
                        .gradient = gradient,
                        .states = states,
                        .learning_rate = context.learning_rate * group.lr_factor,
                        .weight_decay = parameter.decay ? group.weight_decay * context.weight_decay_factor : 0.0,
                        .step = static_cast<std::int64_t>(context.step - context.skipped_steps) + 1};
  const auto sizes = [&states] {
    std::map<std::string, std::size_t> sizes;
    for (const auto& [name, state] : states) sizes[name] = state.size();
    return sizes;
  };
  const auto expected = sizes();
  call_plugin(group.origin, "define", [&] { group.optimizer->define(defined); });
  require_size(group, "the values", values.size(), elements);
  for (const auto& [name, size] : sizes()) require_size(group, "state '" + name + "'", size, expected.at(name));
}

}  // namespace strata::host

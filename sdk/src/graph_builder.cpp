#include <cctype>
#include <stdexcept>
#include <string_view>

#include "differentiate.hpp"
#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/options.hpp"

namespace strata {
namespace {

ConfigurationError unknown_op(const OpRegistry& registry, const std::string& op, const std::string& node) {
  const std::string near = nearest(op, registry.names());
  return ConfigurationError("node '" + node + "': no plugin of this run brings the op '" + op + "'" +
                            (near.empty() ? "" : "; did you mean '" + near + "'?") +
                            "; accepted: Strata's own ops and those of plugins that the configuration names, of a " +
                            "library in a [[library]] table (strata plugins ops tells which plugin has an op)");
}

/// Appends the node, and names it in errors about attributes and sizes, which do not know it.
std::vector<Value> append_named(const OpRegistry& registry, Graph& graph, const Node& node) {
  const std::string place = "op " + node.op + " '" + node.name + "': ";
  try {
    return append_inferred(graph, registry, node);
  } catch (const std::out_of_range&) {
    throw VerificationError(place +
                            "a dimension of its operands or of its attribute 'result' has no size; accepted: "
                            "dimensions of GraphBuilder::define_dim() and of inputs");
  } catch (const VerificationError& error) {
    if (std::string_view(error.what()).starts_with(place)) throw;
    throw VerificationError(place + error.what());
  }
}

bool has_word(std::string_view text, std::string_view word) {
  const auto is_letter = [](char each) { return std::isalnum(static_cast<unsigned char>(each)) != 0 || each == '_'; };
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const auto end = at + word.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

/// A misspelt attribute would train another model.
void require_known_attributes(const OpDefinition& definition, const Node& node) {
  const std::string documentation = definition.documentation();
  for (const auto& [name, value] : node.attributes.values()) {
    if (has_word(documentation, name)) continue;
    throw VerificationError("op " + node.op + " '" + node.name + "': found the attribute '" + name +
                            "'; accepted: those that the op's documentation names: " + documentation);
  }
}

/// A parameter that no optimizer updates.
Parameter unlearned(ParameterRole role, const std::string& name, Initialization initialization) {
  return {.name = name, .initialization = std::move(initialization), .decay = false, .role = role};
}

}  // namespace

GraphBuilder::GraphBuilder(Graph& graph, const OpRegistry& registry, GraphMode mode, DType float_type)
    : graph_(graph), registry_(registry), mode_(mode), float_type_(float_type) {
  graph_.mode = mode;
}

void GraphBuilder::define_dim(const Dim& dim, std::int64_t size) {
  if (size < 1)
    throw ConfigurationError("dimension '" + dim + "' has size " + std::to_string(size) + "; at least 1 is needed");
  const auto [place, added] = graph_.sizes.try_emplace(dim, size);
  if (!added && place->second != size) {
    throw ConfigurationError("dimension '" + dim + "' has size " + std::to_string(place->second) +
                             " already; the model wants " + std::to_string(size));
  }
}

void GraphBuilder::derive_dim(const Dim& dim, std::int64_t size, const std::string& from) {
  define_dim(dim, size);
  graph_.derived[dim] = from;
}

std::optional<std::int64_t> GraphBuilder::find_size(const Dim& dim) const {
  const auto found = graph_.sizes.find(dim);
  if (found == graph_.sizes.end()) return std::nullopt;
  return found->second;
}

void GraphBuilder::begin_block(int block) {
  if (block < block_)
    throw VerificationError("block " + std::to_string(block) + " begins after block " + std::to_string(block_));
  block_ = block;
}

Value GraphBuilder::parameter(const std::string& name, const Dims& dims, Initialization initialization, bool decay,
                              bool gradient_is_zero) {
  return add_parameter(
      {.name = name, .initialization = std::move(initialization), .decay = decay, .gradient_is_zero = gradient_is_zero},
      dims);
}

Value GraphBuilder::frozen_parameter(const std::string& name, const Dims& dims, Initialization initialization) {
  return add_parameter(unlearned(ParameterRole::frozen, name, std::move(initialization)), dims);
}

Value GraphBuilder::running_average(const std::string& name, const Dims& dims, Initialization initialization,
                                    double sign_step) {
  Parameter parameter = unlearned(ParameterRole::running_average, name, std::move(initialization));
  parameter.sign_step = sign_step;
  return add_parameter(std::move(parameter), dims);
}

Value GraphBuilder::constant(const std::string& name, const Dims& dims, Initialization initialization) {
  return add_parameter(unlearned(ParameterRole::constant, name, std::move(initialization)), dims);
}

Value GraphBuilder::add_parameter(Parameter parameter, const Dims& dims) {
  if (const Parameter* known = graph_.find_parameter(parameter.name)) {
    if (graph_.type(known->value).dims != dims)
      throw VerificationError("parameter '" + parameter.name + "' is asked for with other dims");
    if (known->role != parameter.role) {
      throw VerificationError("parameter '" + parameter.name + "' is " + std::string(to_string(known->role)) +
                              ", and is asked for as " + std::string(to_string(parameter.role)));
    }
    return known->value;
  }
  parameter.value = {graph_.append({.op = "parameter", .name = parameter.name, .results = {{dims, float_type_}}}), 0};
  graph_.parameters.push_back(std::move(parameter));
  return graph_.parameters.back().value;
}

Value GraphBuilder::input(const std::string& name, const Dims& dims, DType dtype) {
  for (const Node& node : graph_.nodes()) {
    if (!node.is_input() || node.name != name) continue;
    if (node.results.front() == TensorType{dims, dtype}) return {node.id, 0};
    throw VerificationError("input '" + name + "' is asked for as " + to_string(TensorType{dims, dtype}) +
                            ", and before as " + to_string(node.results.front()));
  }
  return {graph_.append({.op = "input", .name = name, .results = {{dims, dtype}}}), 0};
}

std::vector<Value> GraphBuilder::op(const std::string& op, std::vector<Value> operands, const std::string& name,
                                    Attributes attributes) {
  if (!registry_.has(op)) throw unknown_op(registry_, op, name);
  const Node node{
      .op = op, .name = name, .operands = std::move(operands), .attributes = std::move(attributes), .block = block_};
  require_known_attributes(registry_.get(op), node);
  return append_named(registry_, graph_, node);
}

Value GraphBuilder::embedding(Value table, Value ids, const std::string& name) {
  return op("embedding", {table, ids}, name)[0];
}

Value GraphBuilder::linear(Value x, Value weight, const Dims& result, const std::string& name) {
  return op("linear", {x, weight}, name, {{"result", join(result)}})[0];
}

Value GraphBuilder::add(Value x, Value y, const std::string& name) { return op("add", {x, y}, name)[0]; }

Value GraphBuilder::layer_norm(Value x, Value gain, Value bias, double epsilon, const std::string& name) {
  return op("layer_norm", {x, gain, bias}, name, {{"epsilon", epsilon}})[0];
}

Value GraphBuilder::activation(Value x, const std::string& kind, const std::string& name) {
  return op("activation", {x}, name, {{"kind", kind}})[0];
}

Value GraphBuilder::dropout(Value x, double probability, const std::string& name) {
  if (probability == 0.0 || mode_ != GraphMode::training) return x;
  return op("dropout", {x}, name, {{"p", probability}})[0];
}

Value GraphBuilder::attention(Value q, Value k, Value v, const AttentionOptions& options, const std::string& name) {
  Attributes attributes{{"causal", options.causal}, {"dropout", mode_ == GraphMode::training ? options.dropout : 0.0}};
  if (options.window != 0) attributes.set("window", options.window);
  if (options.scale) attributes.set("scale", *options.scale);
  if (options.cap > 0) attributes.set("cap", options.cap);
  std::vector<Value> operands{q, k, v};
  if (options.bias) operands.push_back(*options.bias);
  if (options.documents) {
    operands.push_back(*options.documents);
    operands.push_back(options.key_documents.value_or(*options.documents));
  }
  return op("attention", std::move(operands), name, std::move(attributes))[0];
}

Value GraphBuilder::multiply(Value x, Value y, const std::string& name) { return op("multiply", {x, y}, name)[0]; }

Value GraphBuilder::mean(Value x, const Dims& result, const std::string& name) {
  const TensorType type = graph_.type(x);
  if (result == type.dims) return x;
  double count = 1;
  for (const Dim& dim : type.dims) {
    if (!contains(result, dim)) count *= static_cast<double>(graph_.sizes.at(dim));
  }
  const DType dtype = type.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Attributes attributes{{"result", join(result)}, {"dtype", std::string(to_string(dtype))}};
  const Value sum = op("reduce_sum", {x}, name + ".sum", attributes)[0];
  return op("weighted_sum", {sum}, name, {{"factor0", 1 / count}})[0];
}

void GraphBuilder::cross_entropy_loss(Value logits, Value targets, const std::string& name, bool main) {
  const std::vector<Value> results = op("cross_entropy", {logits, targets}, name);
  graph_.sinks.push_back({Sink::Kind::loss, {}, results[0]});
  if (main) graph_.sinks.push_back({Sink::Kind::count, {}, results[2]});
}

void GraphBuilder::add_loss(Value term) {
  const Node& node = graph_.node(term.node);
  const std::string place = "the loss term '" + node.name + "' ";
  if (graph_.type(term) != TensorType{{}, DType::f64}) {
    throw VerificationError(place + "is " + to_string(graph_.type(term)) + "; accepted: [] f64");
  }
  if (reads_cotangent(graph_, registry_, node)) {
    throw VerificationError(place + "is made by the op " + node.op +
                            ", whose gradient needs that of its result; accepted: " +
                            "ops that begin a backward pass, such as dot, cross_entropy, z_loss and balance_loss");
  }
  graph_.sinks.push_back({Sink::Kind::loss, {}, term});
}

void GraphBuilder::add_metric(const std::string& name, Value value) {
  graph_.sinks.push_back({Sink::Kind::metric, name, value});
}

void GraphBuilder::output(const std::string& name, Value value) {
  graph_.sinks.push_back({Sink::Kind::output, name, value});
}

}  // namespace strata

#include "strata/graph.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "enum_names.hpp"
#include "strata/error.hpp"
#include "strata/internal/derived_initializer.hpp"

namespace strata {

std::string_view to_string(Phase phase) {
  static constexpr std::string_view kNames[] = {"F", "B", "W"};
  return name_of(kNames, phase);
}

Initializer::~Initializer() = default;

std::string_view to_string(ParameterRole role) {
  static constexpr std::string_view kNames[] = {"trained", "frozen", "constant", "a running average"};
  return name_of(kNames, role);
}

const Node& Graph::node(int id) const {
  const int at = id >= 0 && id < static_cast<int>(position_.size()) ? position_[static_cast<std::size_t>(id)] : -1;
  if (at < 0) throw VerificationError("the graph has no node %" + std::to_string(id));
  return nodes_[static_cast<std::size_t>(at)];
}

Node& Graph::node(int id) { return const_cast<Node&>(static_cast<const Graph&>(*this).node(id)); }

const TensorType& Graph::type(Value value) const {
  const Node& producer = node(value.node);
  if (value.result < 0 || value.result >= static_cast<int>(producer.results.size())) {
    throw VerificationError("node %" + std::to_string(value.node) + " '" + producer.name + "' has no result " +
                            std::to_string(value.result));
  }
  return producer.results[static_cast<std::size_t>(value.result)];
}

const Parameter* Graph::find_parameter(const std::string& name) const {
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  return found == parameters.end() ? nullptr : &*found;
}

int Graph::append(Node node) {
  node.id = allocate_id();
  position_.resize(static_cast<std::size_t>(next_id_), -1);
  position_[static_cast<std::size_t>(node.id)] = static_cast<int>(nodes_.size());
  nodes_.push_back(std::move(node));
  return nodes_.back().id;
}

void Graph::replace_nodes(std::vector<Node> nodes) {
  std::vector<int> position(static_cast<std::size_t>(next_id_), -1);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const int id = nodes[i].id;
    if (id < 0 || id >= next_id_ || position[static_cast<std::size_t>(id)] >= 0) {
      throw VerificationError("node %" + std::to_string(id) + " '" + nodes[i].name + "' has an unknown or repeated id");
    }
    position[static_cast<std::size_t>(id)] = static_cast<int>(i);
  }
  nodes_ = std::move(nodes);
  position_ = std::move(position);
}

void Graph::replace_uses(Value from, Value to) {
  for (Node& node : nodes_) std::ranges::replace(node.operands, from, to);
  for (Sink& sink : sinks) {
    if (sink.value == from) sink.value = to;
  }
}

void Graph::remove_dead_nodes() {
  std::set<int> needed;
  for (const Sink& sink : sinks) needed.insert(sink.value.node);
  for (const Parameter& parameter : parameters) needed.insert(parameter.value.node);
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (!needed.contains(node->id)) continue;
    for (const Value& operand : node->operands) needed.insert(operand.node);
  }
  std::vector<Node> kept;
  for (Node& node : nodes_) {
    if (needed.contains(node.id)) kept.push_back(std::move(node));
  }
  replace_nodes(std::move(kept));
}

int Graph::block_count() const {
  int last = -1;
  for (const Node& node : nodes_) last = std::max(last, node.block);
  return last + 1;
}

namespace {

std::string print(Value value) {
  return "%" + std::to_string(value.node) + (value.result == 0 ? "" : "." + std::to_string(value.result));
}

std::string_view kind_name(Sink::Kind kind) {
  switch (kind) {
    case Sink::Kind::loss:
      return "loss";
    case Sink::Kind::count:
      return "count";
    case Sink::Kind::parameter_gradient:
      return "gradient";
    case Sink::Kind::output:
      return "output";
    case Sink::Kind::metric:
      return "metric";
  }
  throw VerificationError("unknown kind of sink");
}

}  // namespace

std::string to_string(const Graph& graph) {
  std::ostringstream out;
  out << "sizes";
  for (const auto& [dim, size] : graph.sizes) out << ' ' << dim << '=' << size;
  out << '\n';
  for (const Node& node : graph.nodes()) {
    out << '%' << node.id << " = " << node.op << '(';
    for (std::size_t i = 0; i < node.operands.size(); ++i) out << (i == 0 ? "" : ", ") << print(node.operands[i]);
    out << ")" << to_string(node.attributes) << " ->";
    for (const TensorType& type : node.results) out << ' ' << to_string(type);
    out << "  # " << node.name;
    if (node.block >= 0) out << ", block " << node.block << ' ' << to_string(node.phase);
    out << '\n';
  }
  for (const Sink& sink : graph.sinks) {
    out << "sink " << kind_name(sink.kind) << (sink.name.empty() ? "" : " " + sink.name) << " <- " << print(sink.value)
        << '\n';
  }
  return out.str();
}

DerivedInitializer::~DerivedInitializer() = default;

double DerivedInitializer::value(std::span<const std::int64_t> /*index*/, const Shape& /*shape*/,
                                 std::uint64_t /*key*/) const {
  throw VerificationError("derives its values from those of '" + source().name + "' and gives none alone");
}

}  // namespace strata

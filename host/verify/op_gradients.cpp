#include "verify/op_gradients.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "runtime/element.hpp"
#include "runtime/initialize.hpp"
#include "runtime/shards.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"
#include "verify/graph_evaluator.hpp"

namespace strata::host {
namespace {

using Numbers = std::vector<double>;

/// Size of the random perturbation of parameters. Gains of 1 and biases of 0 would hide errors. Usual weights are of
/// this size.
constexpr double kPerturbation = 0.1;
constexpr int kDirections = 3;

Numbers random_numbers(std::uint64_t seed, const std::string& name, std::int64_t count) {
  const std::uint64_t key = random::stream_key(seed, name, 0);
  Numbers numbers;
  numbers.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(random::normal(key, static_cast<std::uint64_t>(i)));
  return numbers;
}

double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double root_mean_square(const Numbers& numbers) {
  return numbers.empty() ? 0 : std::sqrt(dot(numbers, numbers) / static_cast<double>(numbers.size()));
}

/// Runs the graph of a single node.
class OpRunner {
 public:
  OpRunner(OpGraph alone, const OpRegistry& registry, Device& device, std::uint64_t seed)
      : alone_(std::move(alone)), evaluator_(simplified(alone_, registry), registry, device, seed) {}

  OpRunner(const OpRunner&) = delete;
  OpRunner& operator=(const OpRunner&) = delete;

  void set(const std::string& leaf, const Numbers& values) { evaluator_.set(leaf, values); }
  void run() { evaluator_.run(); }
  [[nodiscard]] const OpGraph& alone() const { return alone_; }

  /// The sum of all outputs with the name `name`. Empty if there is none.
  [[nodiscard]] Numbers output(const std::string& name) const {
    Numbers sum;
    for (const Sink& sink : alone_.graph.sinks) {
      if (sink.name != name) continue;
      const Numbers term = evaluator_.get(sink.value);
      sum.resize(term.size());
      std::ranges::transform(sum, term, sum.begin(), std::plus<>());
    }
    return sum;
  }

 private:
  /// Decomposes the graph, because ops with a decomposition have no kernels.
  static const Graph& simplified(OpGraph& alone, const OpRegistry& registry) {
    decompose(alone.graph, registry);
    return alone.graph;
  }

  OpGraph alone_;
  GraphEvaluator evaluator_;
};

/// Walks a forward graph, computes every value and checks each kind of node once.
class GradientChecker {
 public:
  GradientChecker(const Graph& graph, const OpRegistry& registry, Device& device, RandomInputs& inputs,
                  std::uint64_t seed)
      : graph_(graph),
        registry_(registry),
        device_(device),
        inputs_(inputs),
        seed_(seed),
        trained_(trained_nodes(graph)) {}

  std::vector<GradientCheck> run(const VerifiedOps& progress) {
    const std::size_t all = graph_.nodes().size();
    for (const Node& node : graph_.nodes()) {
      if (progress) progress("nodes of the graph", static_cast<std::size_t>(node.id), all);
      if (node.is_leaf()) {
        values_[{node.id, 0}] = leaf_values(node);
      } else {
        visit(node);
      }
    }
    return std::move(checks_);
  }

 private:
  [[nodiscard]] Numbers leaf_values(const Node& node) const {
    const Value value{node.id, 0};
    const TensorType& type = graph_.type(value);
    std::vector<ShardedDim> dims;
    std::vector<IndexMap> whole;
    for (const Dim& dim : type.dims) {
      dims.push_back({dim, graph_.sizes.at(dim), {}, false});
      whole.push_back(IndexMap::whole(graph_.sizes.at(dim)));
    }
    const auto count = static_cast<std::size_t>(element_count(graph_.shape(value)));
    if (node.is_input()) {
      std::vector<std::byte> bytes(count * size_of(type.dtype));
      inputs_.load({node.name, whole, type.dtype, bytes.data()}, 0);
      return load_elements(type.dtype, bytes);
    }
    const Parameter& parameter = *graph_.find_parameter(node.name);
    StoredParameter stored;
    stored.name = parameter.name;
    stored.dims = dims;
    stored.initialization = parameter.initialization;
    const std::vector<std::byte> start =
        initial_values(stored, Shard(dims, Mesh(std::vector<MeshAxis>{}), 0), DType::f64, seed_);
    const Numbers noise = random_numbers(seed_, "perturbation of " + node.name, static_cast<std::int64_t>(count));
    const double perturbation = parameter.role == ParameterRole::constant ? 0 : kPerturbation;
    Numbers numbers = load_elements(DType::f64, start);
    for (std::size_t i = 0; i < count; ++i) numbers[i] += perturbation * noise[i];
    return numbers;
  }

  void visit(const Node& node) {
    const OpGraph alone = isolate(graph_, node, trained_);
    OpRunner runner(alone, registry_, device_, seed_);
    set_operands(runner, node);
    runner.run();
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      values_[{node.id, static_cast<int>(i)}] = runner.output(alone.results[i]);
    }
    if (!alone.differentiated.empty() && kinds_.insert(kind_of(node, alone)).second) check(node, alone, runner);
  }

  void set_operands(OpRunner& runner, const Node& node) const {
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      runner.set(runner.alone().operands[i], values_.at(node.operands[i]));
    }
  }

  /// A key that is equal for nodes that need only one check.
  [[nodiscard]] std::string kind_of(const Node& node, const OpGraph& alone) const {
    std::string kind = node.op + to_string(node.attributes);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      kind += " " + to_string(graph_.type(node.operands[i])) +
              (alone.differentiated.contains(static_cast<int>(i)) ? "differentiated " : " ") +
              graph_.node(node.operands[i].node).op.substr(0, 5);
    }
    for (const std::string& cotangent : alone.cotangents) kind += cotangent.empty() ? " -" : " +";
    return kind;
  }

  void check(const Node& node, const OpGraph& alone, OpRunner& forward) {
    GradientCheck made{node.op, registry_.origin(node.op), node.name, 0, "", 0, ""};
    try {
      OpGraph with_gradients = alone;
      add_gradients(with_gradients, registry_);
      const std::vector<Numbers> cotangents = draw_cotangents(alone);
      OpRunner backward(std::move(with_gradients), registry_, device_, seed_);
      set_operands(backward, node);
      for (std::size_t i = 0; i < cotangents.size(); ++i) {
        if (!alone.cotangents[i].empty()) backward.set(alone.cotangents[i], cotangents[i]);
      }
      backward.run();
      for (const int operand : alone.differentiated) {
        made.operand = operand;
        made.operand_type = to_string(graph_.type(node.operands[static_cast<std::size_t>(operand)]));
        const Numbers gradient = backward.output(alone.gradient(operand));
        made.error = registry_.get(node.op).only_chooses(operand)
                         ? size_of_gradient(gradient)
                         : largest_error(node, forward, cotangents, operand, gradient);
        checks_.push_back(made);
      }
    } catch (const Error& error) {
      made.fault = error.what();
      checks_.push_back(std::move(made));
    }
  }

  [[nodiscard]] std::vector<Numbers> draw_cotangents(const OpGraph& alone) const {
    std::vector<Numbers> cotangents;
    for (std::size_t i = 0; i < alone.cotangents.size(); ++i) {
      const Value result = alone.graph.sinks[i].value;
      cotangents.push_back(random_numbers(seed_, alone.cotangents[i], element_count(alone.graph.shape(result))));
    }
    return cotangents;
  }

  /// The loss whose gradients are `cotangents`: the sum of their products with the results. \return the loss, and the
  /// sum of the absolute values of its terms, which bounds its rounding.
  [[nodiscard]] static std::pair<double, double> loss(OpRunner& forward, const std::vector<Numbers>& cotangents) {
    forward.run();
    const OpGraph& alone = forward.alone();
    if (alone.loss >= 0) {
      const double value = forward.output(alone.results[static_cast<std::size_t>(alone.loss)]).at(0);
      return {value, std::abs(value)};
    }
    double sum = 0;
    double size = 0;
    for (std::size_t i = 0; i < cotangents.size(); ++i) {
      if (alone.cotangents[i].empty()) continue;
      const Numbers result = forward.output(alone.results[i]);
      for (std::size_t at = 0; at < result.size(); ++at) {
        sum += cotangents[i][at] * result[at];
        size += std::abs(cotangents[i][at] * result[at]);
      }
    }
    return {sum, size};
  }

  /// The error of the gradient of an operand that only chooses, which is zero. A difference would meet jumps.
  static double size_of_gradient(const Numbers& gradient) {
    return root_mean_square(gradient) == 0 ? 0 : std::numeric_limits<double>::infinity();
  }

  /// The largest error over random directions. If the rule gives no gradient, zero is checked.
  double largest_error(const Node& node, OpRunner& forward, const std::vector<Numbers>& cotangents, int operand,
                       Numbers gradient) const {
    const Numbers& origin = values_.at(node.operands[static_cast<std::size_t>(operand)]);
    gradient.resize(origin.size());
    double largest = 0;
    for (int i = 0; i < kDirections; ++i) {
      const std::string name = "direction " + std::to_string(i) + " " + std::to_string(operand) + " " + node.name;
      Numbers direction = random_numbers(seed_, name, static_cast<std::int64_t>(origin.size()));
      const double size = std::max(root_mean_square(origin), 1e-3);
      for (double& each : direction) each *= size;
      avoid_jumps(origin, gradient, direction);
      largest = std::max(largest, error_along(forward, cotangents, operand, origin, gradient, direction));
    }
    return largest;
  }

  /// Zeros among other numbers stay if they have no gradient, because they may say that nothing is chosen, such as
  /// gates of experts: results jump where they become something else. Others only grow: of the equal zeros of a window,
  /// the one that a pooling has chosen stays the largest.
  static void avoid_jumps(const Numbers& origin, const Numbers& gradient, Numbers& direction) {
    if (root_mean_square(origin) == 0) return;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      if (origin[i] == 0) direction[i] = gradient[i] == 0 ? 0 : std::abs(direction[i]);
    }
  }

  /// The smallest error over several step sizes. Long steps are accurate if the function is smooth. Short steps are
  /// accurate if it has a kink nearby (relu), and steps forwards if it has one at the origin. A wrong gradient is
  /// inaccurate for all of them.
  static double error_along(OpRunner& forward, const std::vector<Numbers>& cotangents, int operand,
                            const Numbers& origin, const Numbers& gradient, const Numbers& direction) {
    const double expected = dot(gradient, direction);
    const std::string& leaf = forward.alone().operands[static_cast<std::size_t>(operand)];
    const double typical = std::sqrt(dot(gradient, gradient) * dot(direction, direction) /
                                     std::max<double>(1, static_cast<double>(direction.size())));
    double best = std::numeric_limits<double>::infinity();
    double rounding = 0;
    const auto at = [&](double step) {
      Numbers moved = origin;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
      forward.set(leaf, moved);
      const auto [value, size] = loss(forward, cotangents);
      rounding = std::max(rounding, size);
      return value;
    };
    const double start = at(0);
    for (const double step : {1e-3, 1e-4, 1e-5, 1e-6}) {
      const double near = at(step);
      const double far = at(2 * step);
      // The formula of five points has an error of order step^4, that of three points forwards one of step^2.
      for (const double found : {(8 * (near - at(-step)) - (far - at(-2 * step))) / (12 * step),
                                 (4 * near - far - 3 * start) / (2 * step)}) {
        const double scale = std::max({typical, std::abs(found), 1e-5 * rounding});
        best = std::min(best, scale > 0 ? std::abs(found - expected) / scale : 0);
      }
      if (best <= GradientCheck::kTolerance) break;
    }
    forward.set(leaf, origin);
    return best;
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  Device& device_;
  RandomInputs& inputs_;
  std::uint64_t seed_;
  std::set<int> trained_;
  std::map<Value, Numbers> values_;
  std::set<std::string> kinds_;
  std::vector<GradientCheck> checks_;
};

}  // namespace

std::vector<GradientCheck> check_gradients(const Graph& forward, const OpRegistry& registry, Device& reference,
                                           RandomInputs& inputs, std::uint64_t seed, const VerifiedOps& progress) {
  return GradientChecker(forward, registry, reference, inputs, seed).run(progress);
}

}  // namespace strata::host

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/tensor.hpp"

namespace strata {

class OpRegistry;

/// One result of one node.
struct Value {
  int node = -1;
  int result = 0;

  auto operator<=>(const Value&) const = default;
};

/// What a node's work is for.
enum class Phase : std::uint8_t {
  forward,   ///< F
  backward,  ///< B: gradients of activations
  weight     ///< W: direct producers of parameter gradients, and nothing else
};

STRATA_API std::string_view to_string(Phase phase);

/// One op of the logical graph.
struct Node {
  int id = -1;
  /// The op's name in the registry; "parameter" and "input" are the two kinds of leaves.
  std::string op;
  /// Unique among forward nodes and stable: parameters and inputs are known by it, and random numbers are keyed by it.
  /// Clones and gradient nodes that must draw the same numbers carry the same name.
  std::string name;
  std::vector<Value> operands;
  std::vector<TensorType> results;
  Attributes attributes;
  /// The layer that the node belongs to, ascending from 0 in execution order; -1 for leaves.
  int block = -1;
  Phase phase = Phase::forward;
  /// The forward node that this one repeats instead of its results being kept; -1 for none. Where its result would have
  /// to be communicated again, the partitioner keeps the forward one.
  int recomputes = -1;

  [[nodiscard]] bool is_leaf() const { return op == "parameter" || op == "input"; }
};

/// How a parameter starts.
struct Initialization {
  enum class Kind : std::uint8_t { constant, normal };
  Kind kind = Kind::constant;
  /// The constant, or the standard deviation of a normal with mean 0.
  double value = 0.0;

  static Initialization constant(double value) { return {Kind::constant, value}; }
  static Initialization normal(double standard_deviation) { return {Kind::normal, standard_deviation}; }
};

/// What is trained.
struct Parameter {
  std::string name;
  Value value;
  Initialization initialization;
  /// Whether weight decay applies (matrices and embeddings: yes; gains and biases: no).
  bool decay = true;
  /// True where the gradient vanishes for every input (a key bias under softmax): an adaptive optimizer then turns
  /// rounding noise into steps, so equality tests leave the parameter out, and say so.
  bool gradient_is_zero = false;
  /// Element type in which gradients are accumulated and reduced; empty: f32, or f64 for f64 values. Values of a lower
  /// type than f32 are trained through a "master" copy in f32 among the optimizer's states.
  std::optional<DType> gradient_type = std::nullopt;
};

/// Gradients of a loss are multiplied by a factor, so that small ones survive a low-precision type, and divided again
/// before the update (Micikevicius et al., "Mixed Precision Training", ICLR 2018).
struct LossScaling {
  double initial = 65536;
  /// True: halved (times `backoff`) after an overflow, whose step is skipped, and grown after `interval` good steps.
  bool dynamic = true;
  double growth = 2;
  double backoff = 0.5;
  int interval = 2000;

  bool operator==(const LossScaling&) const = default;
};

/// What leaves the graph.
struct Sink {
  enum class Kind : std::uint8_t {
    loss,                ///< scalar: sum of the loss over tokens
    count,               ///< scalar: number of tokens that the loss sums over
    parameter_gradient,  ///< one contribution to a parameter's gradient; several are summed
    output               ///< a value that the evaluation pass or generation reads, by name
  };
  Kind kind = Kind::output;
  /// The parameter's or the output's name; empty for loss and count.
  std::string name;
  Value value;
};

/// What is being built; a model leaves out what only training needs through GraphBuilder.
enum class GraphMode : std::uint8_t { training, evaluation };

/// The logical graph: named dimensions, no mesh. Nodes stand in an order in which every operand precedes its use.
class STRATA_API Graph {
 public:
  /// Dimensions and their global sizes; "batch" is one micro-batch over all replicas.
  DimSizes sizes;
  std::vector<Parameter> parameters;
  std::vector<Sink> sinks;
  /// Set by the strategy that needs it; two are an error.
  std::optional<LossScaling> loss_scaling;

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const Node& node(int id) const;
  [[nodiscard]] Node& node(int id);
  [[nodiscard]] const TensorType& type(Value value) const;
  [[nodiscard]] Shape shape(Value value) const { return shape_of(type(value).dims, sizes); }
  [[nodiscard]] const Parameter* find_parameter(const std::string& name) const;

  /// Gives `node` a fresh id and appends it. \return the id.
  int append(Node node);
  /// Gives `node` a fresh id without placing it; place it with replace_nodes(). For rewrites.
  int allocate_id() { return next_id_++; }
  /// Replaces the nodes (same ids where they are kept). \throws VerificationError on a repeated or unknown id.
  void replace_nodes(std::vector<Node> nodes);
  /// Redirects every operand and sink that reads `from` to `to`.
  void replace_uses(Value from, Value to);
  /// Drops nodes that no sink needs, except leaves that are parameters.
  void remove_dead_nodes();

  [[nodiscard]] int block_count() const;

 private:
  std::vector<Node> nodes_;
  std::vector<int> position_;  // by id; -1 where the id is not placed
  int next_id_ = 0;
};

/// One line a node, dimensions and types spelled out.
STRATA_API std::string to_string(const Graph& graph);

/// Checks every invariant of a graph: operands defined before use, types as the op infers them, unique forward names,
/// sinks and parameters that exist, W nodes that produce parameter gradients only, sizes for every dimension. \throws
/// VerificationError that names the phase `after` and the node.
STRATA_API void verify(const Graph& graph, const OpRegistry& registry, const std::string& after);

/// What a model is written with: every call appends one node in the current block.
class STRATA_API GraphBuilder {
 public:
  GraphBuilder(Graph& graph, const OpRegistry& registry, GraphMode mode, DType float_type);

  [[nodiscard]] Graph& graph() { return graph_; }
  [[nodiscard]] GraphMode mode() const { return mode_; }
  [[nodiscard]] DType float_type() const { return float_type_; }

  /// Names a dimension. "batch" and "vocab" are there already.
  /// \throws ConfigurationError if it is there with another size or the size is below 1.
  void define_dim(const Dim& dim, std::int64_t size);
  [[nodiscard]] std::optional<std::int64_t> find_size(const Dim& dim) const;

  /// The block of the nodes that follow; must not descend.
  void begin_block(int block);

  /// A trained tensor; a second call with the same name gives the same value (tied weights).
  Value parameter(const std::string& name, const Dims& dims, Initialization initialization, bool decay,
                  bool gradient_is_zero = false);
  /// Data from the host: "tokens" [batch seq], "targets" [batch seq], "positions" [seq], all i32.
  Value input(const std::string& name, const Dims& dims, DType dtype = DType::i32);

  Value embedding(Value table, Value ids, const std::string& name);
  /// Contracts the dims that `x` and `weight` share and `result` lacks.
  Value linear(Value x, Value weight, const Dims& result, const std::string& name);
  /// `y` has the dims of `x` or an ordered subset of them.
  Value add(Value x, Value y, const std::string& name);
  /// Normalises the last dim of `x`, which is the only dim of `gain` and `bias`.
  Value layer_norm(Value x, Value gain, Value bias, double epsilon, const std::string& name);
  /// `kind`: gelu_tanh, relu or silu.
  Value activation(Value x, const std::string& kind, const std::string& name);
  /// `x` itself when `probability` is 0 or the mode is not training.
  Value dropout(Value x, double probability, const std::string& name);
  /// q [batch seq heads… head_dim]; k and v the same with fewer heads for grouped queries.
  Value attention(Value q, Value k, Value v, bool causal, double dropout, const std::string& name);
  /// Sums the loss over targets that are not negative; registers the loss sink and, for the main loss, the count.
  void cross_entropy_loss(Value logits, Value targets, const std::string& name, bool main = true);
  /// Names a value for evaluation and generation ("logits").
  void output(const std::string& name, Value value);

  /// Any registered op. \return one value per result.
  std::vector<Value> op(const std::string& op, std::vector<Value> operands, const std::string& name,
                        Attributes attributes = {});

 private:
  Graph& graph_;
  const OpRegistry& registry_;
  GraphMode mode_;
  DType float_type_;
  int block_ = 0;
};

}  // namespace strata

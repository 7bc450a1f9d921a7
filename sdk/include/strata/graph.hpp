#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/tensor.hpp"

namespace strata {

class OpRegistry;

/// A reference to one result of one node.
struct Value {
  int node = -1;
  int result = 0;

  auto operator<=>(const Value&) const = default;
};

/// The pass that a node belongs to.
enum class Phase : std::uint8_t {
  forward,   ///< F: activations and the loss
  backward,  ///< B: gradients of activations
  weight     ///< W: only nodes that directly produce a parameter gradient
};

/// "F", "B" or "W".
STRATA_API std::string_view to_string(Phase phase);

/// One op of the logical graph, with global sizes.
struct Node {
  int id = -1;
  /// The op's name in the registry. "parameter" and "input" are the two kinds of leaves.
  std::string op = {};
  /// Unique among forward nodes, and the same in every layout. It identifies parameters and inputs, and it keys random
  /// numbers. A clone or gradient node that must draw the same numbers carries the same name.
  std::string name = {};
  std::vector<Value> operands = {};
  std::vector<TensorType> results = {};
  Attributes attributes = {};
  /// The layer of the node, ascending from 0 in execution order; -1 for leaves.
  int block = -1;
  Phase phase = Phase::forward;
  /// Id of the forward node that this node recomputes; -1 if it recomputes none. If recomputing a result would repeat a
  /// communication, the partitioner stashes the forward result instead.
  int recomputes = -1;

  [[nodiscard]] bool is_parameter() const { return op == "parameter"; }
  [[nodiscard]] bool is_input() const { return op == "input"; }
  [[nodiscard]] bool is_leaf() const { return is_parameter() || is_input(); }
};

/// A formula for the initial values of a parameter, such as a rotary table. Implementations keep no state, because
/// several threads call them.
class STRATA_API Initializer {
 public:
  virtual ~Initializer();
  /// The value at `index` of a parameter of `shape`. `index` is global, with one number per dimension. `key` is the
  /// parameter's stream of random numbers (strata::random) and is the same on every rank. The value must depend on
  /// these arguments only, so that every layout starts from the same values.
  [[nodiscard]] virtual double value(std::span<const std::int64_t> index, const Shape& shape,
                                     std::uint64_t key) const = 0;
};

/// The initial values of a parameter.
struct Initialization {
  enum class Kind : std::uint8_t {
    constant,  ///< `value` everywhere
    normal,    ///< normally distributed with mean 0 and standard deviation `value`
    custom     ///< the values of `initializer`
  };
  Kind kind = Kind::constant;
  double value = 0.0;
  std::shared_ptr<const Initializer> initializer = nullptr;

  bool operator==(const Initialization&) const = default;

  static Initialization constant(double value) { return {Kind::constant, value}; }
  static Initialization normal(double standard_deviation) { return {Kind::normal, standard_deviation}; }
  static Initialization custom(std::shared_ptr<const Initializer> initializer) {
    return {Kind::custom, 0.0, std::move(initializer)};
  }
};

/// Whether training changes a parameter, and whether checkpoints contain it.
enum class ParameterRole : std::uint8_t {
  trained,
  frozen,    ///< keeps its loaded values: no gradient, no optimizer states, in checkpoints
  constant,  ///< computed from the model's options at every start: no gradient, no optimizer states, not in checkpoints
  running_average  ///< a step adds the mean of its gradients over the micro-batches, or Parameter::sign_step times the
                   ///< sign of their sum: no optimizer, in checkpoints
};

STRATA_API std::string_view to_string(ParameterRole role);

/// A tensor that the model owns.
struct Parameter {
  std::string name = {};
  Value value = {};
  Initialization initialization = {};
  /// Whether weight decay applies. Usual: true for matrices and embeddings, false for gains and biases.
  bool decay = true;
  /// True if the gradient is zero for every input, such as that of a key bias under softmax. An adaptive optimizer
  /// turns its rounding noise into steps, so equality tests exclude the parameter and report that.
  bool gradient_is_zero = false;
  ParameterRole role = ParameterRole::trained;
  /// Element type in which gradients are accumulated and reduced. Empty: f64 for f64 values, else f32. A parameter
  /// whose value type is shorter than f32 is trained through a "master" copy in f32 among the optimizer states.
  std::optional<DType> gradient_type = std::nullopt;
  /// How far a step moves each element of a running average, in the direction of the sum of its gradients. 0: a step
  /// adds the mean of the gradients.
  double sign_step = 0;

  bool operator==(const Parameter&) const = default;
};

/// A low-rank term that a strategy adds to a parameter: readers of the parameter W compute with W + scale · B A,
/// without forming the sum (Hu et al., "LoRA", 2021). B has the output dimensions of W, A has those that products
/// contract, and both have `rank`. Exports merge the term into W, or write A and B alone.
struct LowRankTerm {
  /// Names of W, A and B among Graph::parameters.
  std::string parameter;
  std::string a;
  std::string b;
  /// The dimension over which the product of B and A sums.
  Dim rank;
  double scale = 1;
  /// Probability of dropout on the input of A.
  double dropout = 0;
  /// How W is read: as a table from which rows are picked, as the matrix of a product, or as both.
  bool is_table = false;
  bool is_matrix = false;

  bool operator==(const LowRankTerm&) const = default;
};

/// Loss scaling: gradients of the loss are multiplied by a factor, so that small ones survive in a low-precision type,
/// and divided by it before the update (Micikevicius et al., "Mixed Precision Training", ICLR 2018).
struct LossScaling {
  double initial = 65536;
  /// True: an overflow skips the step and multiplies the scale by `backoff`. After `interval` good steps the scale
  /// grows by the factor `growth`.
  bool dynamic = true;
  double growth = 2;
  double backoff = 0.5;
  int interval = 2000;

  bool operator==(const LossScaling&) const = default;
};

/// A value that the graph delivers.
struct Sink {
  enum class Kind : std::uint8_t {
    loss,                ///< scalar: the loss, summed over elements such as tokens
    count,               ///< scalar: the number of elements in that sum
    parameter_gradient,  ///< one contribution to a parameter's gradient; a parameter may have several
    output,              ///< a named value for evaluation or generation
    metric               ///< GraphBuilder::add_metric()
  };
  Kind kind = Kind::output;
  /// Name of the parameter, output or metric; empty for loss and count.
  std::string name;
  Value value;
};

/// The purpose of a graph. In evaluation mode GraphBuilder emits no dropout.
enum class GraphMode : std::uint8_t { training, evaluation };

/// The logical graph: named dimensions, global sizes, no mesh. Every operand precedes its use in nodes().
class STRATA_API Graph {
 public:
  /// Global size of each dimension. "batch" is one micro-batch over all replicas.
  DimSizes sizes;
  /// The dimensions whose sizes the model computes (GraphBuilder::derive_dim), and from what.
  std::map<Dim, std::string, std::less<>> derived;
  std::vector<Parameter> parameters;
  std::vector<Sink> sinks;
  /// Set by the strategy that needs loss scaling. A second strategy that sets it is an error.
  std::optional<LossScaling> loss_scaling;
  /// The purpose of the graph. A rewrite emits dropout in a training graph only.
  GraphMode mode = GraphMode::training;
  /// Low-rank terms of parameters, at most one for a parameter. A strategy that rewrites the graph so adds them here.
  std::vector<LowRankTerm> low_rank_terms;

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  /// The node with this id. \throws VerificationError if there is none.
  [[nodiscard]] const Node& node(int id) const;
  [[nodiscard]] Node& node(int id);
  [[nodiscard]] const TensorType& type(Value value) const;
  /// Global sizes of a value, in elements.
  [[nodiscard]] Shape shape(Value value) const { return shape_of(type(value).dims, sizes); }
  /// The parameter named `name`, or null. The graph owns it.
  [[nodiscard]] const Parameter* find_parameter(const std::string& name) const;

  /// Gives `node` a fresh id and appends it. \return the id.
  int append(Node node);
  /// Gives `node` a fresh id without placing it. Rewrites then place it with replace_nodes().
  int allocate_id() { return next_id_++; }
  /// Replaces all nodes. Nodes that stay keep their ids. \throws VerificationError if an id is repeated or unknown.
  void replace_nodes(std::vector<Node> nodes);
  /// Redirects every operand and sink that reads `from` to `to`.
  void replace_uses(Value from, Value to);
  /// Removes nodes that no sink depends on. Parameters stay.
  void remove_dead_nodes();

  /// Number of blocks (layers): the largest block of a node plus 1.
  [[nodiscard]] int block_count() const;

 private:
  std::vector<Node> nodes_;
  std::vector<int> position_;  // index in nodes_ by id; -1 if the id is not placed
  int next_id_ = 0;
};

/// The graph as text: one line per node, with dimensions and types.
STRATA_API std::string to_string(const Graph& graph);

/// Checks every invariant of a graph. Operands precede their uses. Result types equal what the op infers. Forward names
/// are unique. Sinks and parameters exist. W nodes produce parameter gradients only. Every dimension has a size.
/// \throws VerificationError that names the phase `after` which made the graph, and the node.
STRATA_API void verify(const Graph& graph, const OpRegistry& registry, const std::string& after);

/// What attention sees, and how it scores it.
struct AttentionOptions {
  /// A query sees the keys up to its own position.
  bool causal = false;
  /// Probability with which a probability is dropped in training.
  double dropout = 0;
  /// With `causal`: a query sees itself and the `window` - 1 tokens before it. 0: all tokens before it.
  std::int64_t window = 0;
  /// The factor of the products q · k. Empty: 1 / √head_dim.
  std::optional<double> scale = std::nullopt;
  /// Bends scores so that none is beyond ± cap. 0: no cap. Not together with a bias.
  double cap = 0;
  /// i32 [batch seq], the documents of the queries: a query sees only keys with its own number. As a mask of padding,
  /// it is 1 for tokens and 0 for padding. A query that sees no key gets 0.
  std::optional<Value> documents = std::nullopt;
  /// The same for keys along another dimension than the queries. Empty: `documents` serves both.
  std::optional<Value> key_documents = std::nullopt;
  /// [heads… distance], which is added to the scores: a key that is d positions after its query gets element
  /// d + queries - 1. So "distance" is a dimension of queries + keys - 1 elements. The heads are those of q.
  std::optional<Value> bias = std::nullopt;
};

/// Builds the logical graph of a model. Every call appends one node to the current block.
class STRATA_API GraphBuilder {
 public:
  /// `graph` and `registry` outlive the builder. `float_type` is the element type of parameters.
  GraphBuilder(Graph& graph, const OpRegistry& registry, GraphMode mode, DType float_type);

  [[nodiscard]] Graph& graph() { return graph_; }
  [[nodiscard]] GraphMode mode() const { return mode_; }
  [[nodiscard]] DType float_type() const { return float_type_; }

  /// Defines a dimension and its global size. The host has defined "batch", Model::sizes() and the sizes of
  /// the data. \throws ConfigurationError if the dimension has another size already, or if the size is below 1.
  void define_dim(const Dim& dim, std::int64_t size);
  /// Defines a dimension whose size the model computes from others, so that nobody chooses it: the capacity of an
  /// expert. `from`: words for messages, such as "capacity_factor, the tokens and the experts". Nothing asks for
  /// another size of it, and a small model need not keep its divisors. \throws ConfigurationError as define_dim() does.
  void derive_dim(const Dim& dim, std::int64_t size, const std::string& from);
  /// The size of `dim`, or empty if it is not defined.
  [[nodiscard]] std::optional<std::int64_t> find_size(const Dim& dim) const;

  /// Sets the block (layer) of the nodes that follow. Blocks ascend.
  void begin_block(int block);

  /// A trained parameter. A second call with the same name returns the same value, which ties the weights. `decay` and
  /// `gradient_is_zero`: see Parameter. \throws VerificationError if the name exists with other dims.
  Value parameter(const std::string& name, const Dims& dims, Initialization initialization, bool decay,
                  bool gradient_is_zero = false);
  /// A parameter that training does not change. \throws VerificationError if the name exists with other dims.
  Value frozen_parameter(const std::string& name, const Dims& dims, Initialization initialization);
  /// A parameter that follows a statistic of the data, such as the running mean of a batch norm. The op that reads it
  /// contributes its change as its gradient, and each step adds the mean over the micro-batches. With a `sign_step`,
  /// each step adds `sign_step` times the sign of the sum over micro-batches and ranks instead, as for a bias that
  /// balances experts. Neither the optimizer nor the norm of the gradient has it. \throws VerificationError if the name
  /// exists with other dims.
  Value running_average(const std::string& name, const Dims& dims, Initialization initialization, double sign_step = 0);
  /// A parameter that `initialization` computes at every start from the model's options, such as a rotary table.
  /// \throws VerificationError if the name exists with other dims.
  Value constant(const std::string& name, const Dims& dims, Initialization initialization);
  /// Data of the current micro-batch. The run's dataset must have an input of this name, these dims and this type.
  /// Floating-point inputs have float_type(). A second call with the same name returns the same value. \throws
  /// VerificationError if the name was asked for with other dims or another type.
  Value input(const std::string& name, const Dims& dims, DType dtype = DType::i32);

  /// Looks up rows of `table` [vocab …] by `ids`.
  Value embedding(Value table, Value ids, const std::string& name);
  /// Multiplies `x` by `weight` and contracts the dims that both have and `result` lacks.
  Value linear(Value x, Value weight, const Dims& result, const std::string& name);
  /// x + y. `y` has the dims of `x` or an ordered subset of them, such as a bias.
  Value add(Value x, Value y, const std::string& name);
  /// Normalises over the last dim of `x`, which is the only dim of `gain` and `bias`.
  Value layer_norm(Value x, Value gain, Value bias, double epsilon, const std::string& name);
  /// `kind`: one of activation_functions().
  Value activation(Value x, const std::string& kind, const std::string& name);
  /// Dropout with drop probability `probability`. Returns `x` itself if that is 0 or the mode is not training.
  Value dropout(Value x, double probability, const std::string& name);
  /// Attention of q [batch seq heads… head_dim] over k and v, where "seq" is any dimension, and another one for k and v
  /// if the mask is not causal. Grouped queries: the heads dims of k and v are the first of those of q, such as
  /// [kv_heads] for [kv_heads group].
  Value attention(Value q, Value k, Value v, const AttentionOptions& options, const std::string& name);
  /// x · y, element by element. `y` has the dims of `x` or an ordered subset of them, such as a factor of each column.
  Value multiply(Value x, Value y, const std::string& name);
  /// The mean of `x` over the dims that `result` lacks. `result`: an ordered subset of the dims of `x`. A mean over
  /// "batch" is that of one micro-batch on all replicas. Appends several nodes.
  Value mean(Value x, const Dims& result, const std::string& name);
  /// Appends the cross-entropy of `logits`, summed over targets that are not negative. Registers the loss sink and, if
  /// `main`, the token count.
  void cross_entropy_loss(Value logits, Value targets, const std::string& name, bool main = true);
  /// Adds `term`, [] f64, to the loss: the result of an op whose gradient rule takes the loss's gradient as 1, such as
  /// z_loss, or dot for any value. Terms of samples are summed. The sum of a step is divided by its token count.
  void add_loss(Value term);
  /// Names a value that steps and evaluations log, such as how many samples are classified correctly: `value`, [] or
  /// [n] f64, the result of an op whose terms of samples are summed. Micro-batches and ranks are summed too. The log
  /// has [] divided by the token count, and of [n] how unequal its elements are (docs/logging.md). The value has no
  /// gradient. A model adds a metric of training alone only if mode() is training.
  void add_metric(const std::string& name, Value value);
  /// Registers `value` as an output for evaluation and generation, such as "logits".
  void output(const std::string& name, Value value);

  /// Appends any registered op. \return one value per result. \throws ConfigurationError if no plugin of the run
  /// registers the op.
  std::vector<Value> op(const std::string& op, std::vector<Value> operands, const std::string& name,
                        Attributes attributes = {});

 private:
  Value add_parameter(Parameter parameter, const Dims& dims);

  Graph& graph_;
  const OpRegistry& registry_;
  GraphMode mode_;
  DType float_type_;
  int block_ = 0;
};

}  // namespace strata

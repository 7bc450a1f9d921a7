#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/position_mixing.hpp"

namespace strata {

/// The loop nest of an op. The partitioner knows nothing else about the op when it shards it.
struct STRATA_API IterationSpace {
  /// The iteration dimension of each dimension of each operand and result. Example: the "seq" of attention's k iterates
  /// "kv_seq".
  std::vector<Dims> operands;
  std::vector<Dims> results;
  /// Iteration dimensions that must not be sharded.
  std::set<Dim> whole;
  /// How ranks combine a result that lacks a sharded iteration dimension. Example: a sum, if the contracted dimension
  /// of a matrix product is sharded.
  Reduction reduction = Reduction::sum;
  /// Operands that may stay partial sums, because the op is linear in them and adds nothing else.
  std::set<int> partial_operands;

  /// Every iteration dimension once, in order of appearance.
  [[nodiscard]] Dims dims() const;
};

/// The floating-point type in which mixed precision hands an operand to its op. In f64 runs every value is f64 instead.
enum class OperandPrecision : std::uint8_t {
  unchanged,  ///< the type that the model chose, because the op may be inaccurate in another
  low,        ///< the compute type: the op is faster in it and accumulates in f32 (matrix products)
  any,        ///< the type of the operand's producer: a short type costs the op no accuracy
  common      ///< the widest type among the operands of this precision
};

/// Cost of one execution of a node, for the global sizes of the graph.
struct Cost {
  double flops = 0;  ///< a multiply-add counts as two
  double bytes = 0;  ///< operands read plus results written
};

/// The context in which an op's gradient rule reads the forward node and emits nodes of the same graph.
class STRATA_API GradientContext {
 public:
  virtual ~GradientContext();

  [[nodiscard]] virtual const Graph& graph() const = 0;
  [[nodiscard]] virtual const Node& node() const = 0;
  [[nodiscard]] Value operand(int index) const { return node().operands.at(static_cast<std::size_t>(index)); }
  [[nodiscard]] Value result(int index) const { return {node().id, index}; }
  /// Gradient of the loss with respect to result `index`. Empty if the loss does not depend on it, and always for the
  /// loss itself, whose gradient is 1.
  [[nodiscard]] virtual std::optional<Value> cotangent(int index) = 0;
  /// False for inputs, integers and parameters that are not trained.
  [[nodiscard]] virtual bool needs_gradient(int operand) const = 0;
  /// Instead of an operand in emit(): the node's results are operands of other gradient nodes, so it is a B node.
  static constexpr int kReadByGradients = -1;
  /// Emits a node that contributes to the gradient of `operand` alone: a W node if that is a parameter, else a B node.
  /// \return one value per result.
  virtual std::vector<Value> emit(int operand, const std::string& op, std::vector<Value> operands,
                                  Attributes attributes) = 0;
  /// Adds a term to the gradient of `operand`. Terms of a parameter become separate sinks, which the graph never sums.
  virtual void contribute(int operand, Value gradient) = 0;

 protected:
  /// For contribute(). \throws VerificationError that names the op for a gradient of other dimensions than its operand.
  void require_dims_of_operand(int operand, Value gradient) const;
};

/// The context in which an op replaces itself by simpler ops.
class STRATA_API DecomposeContext {
 public:
  virtual ~DecomposeContext();
  [[nodiscard]] virtual const Graph& graph() const = 0;
  [[nodiscard]] virtual const Node& node() const = 0;
  /// Emits a node with the block and the phase of node(). \return one value per result.
  virtual std::vector<Value> emit(const std::string& op, std::vector<Value> operands, Attributes attributes) = 0;
  /// Redirects all uses of result `index` to `value`.
  virtual void replace(int index, Value value) = 0;
};

/// The dimension of what ops keep of earlier positions of a sequence (OpDefinition::continuation), in order of
/// position.
inline constexpr const char* kCacheDim = "cache_seq";

/// The context in which an op that mixes the positions of a sequence, such as attention, replaces itself by an op that
/// computes new positions only. The new op keeps what it needs of earlier positions in results along kCacheDim
/// (OpDefinition::keeps_result). One text has as many positions as kCacheDim has elements.
class STRATA_API ContinuationContext : public DecomposeContext {
 public:
  ~ContinuationContext() override;
  /// The dimension along which the positions lie. Its size is the number of new positions of one step.
  [[nodiscard]] virtual Dim sequence() const = 0;
  /// i32 [batch sequence]: the position of each new element in its text, ascending from 0; -1 for padding, which the op
  /// ignores. What is kept of larger positions belongs to another text.
  [[nodiscard]] virtual Value positions() const = 0;
};

/// Emits the gradient of every operand that needs one. \throws VerificationError if that is impossible.
using GradientRule = std::function<void(GradientContext&)>;
/// Emits the simpler nodes that replace a node, and names their values that replace its results.
using Decomposition = std::function<void(DecomposeContext&)>;
/// Emits the nodes that compute a node's results for new positions. All rows of "batch" are independent texts of one
/// document each. \throws ConfigurationError that says why if the node cannot be continued.
using ContinuationRule = std::function<void(ContinuationContext&)>;

/// How an op is used outside of graphs, on flat buffers and scalars: zeroing and accumulating gradients, updating
/// parameters. Such an instruction names no dimensions.
struct FlatSignature {
  /// Number of operands.
  int inputs = 0;
  /// Number of results. An update counts the values only.
  int outputs = 1;
  /// True: each result has as many elements as the first input, or any number if there is no input. False: each result
  /// is one number.
  bool elementwise = true;
  /// True: results have any number of elements, which the attributes of the op imply.
  bool has_own_sizes = false;
  /// True for an op that updates parameters. It updates the values in place as its first result. The further results
  /// have as many elements each: a "master" copy in f32 if the values have a shorter type, then the states. An op that
  /// is no update may change states too, after its `outputs` results.
  bool is_update = false;
  /// Names of the optimizer states that the op changes in place, such as "first_moment". They are its last results.
  std::vector<std::string> states = {};
};

/// Two instructions that a fused op may replace, as FusionPattern::fit sees them.
struct FusionPair {
  const Attributes& producer;
  const Attributes& consumer;
  /// Iteration dimensions of each operand of the two. Both lists are empty for ops on flat buffers.
  const std::vector<Dims>& producer_operands;
  const std::vector<Dims>& consumer_operands;
  /// True if other instructions read the producer's result too. The fused op must then also write that result.
  bool keeps_product = false;
};

/// A pair of instructions that a fused op replaces. `consumer` reads the only result of `producer` as its operand
/// number `operand`. The fused op has the producer's operands, then the other operands of the consumer. It has the
/// results of the consumer. It iterates over the dimensions of both. Example: linear(x, w) -> t and add(t, b) -> y
/// become linear_bias(x, w, b) -> y. A pair is not fused if both iterate over one dimension with different shards, or
/// if only one of them is an op on flat buffers.
struct FusionPattern {
  /// Position of the fused instruction, if both positions are possible.
  enum class Place : std::uint8_t {
    producer,  ///< early, so the result is ready sooner
    consumer   ///< late, so the result occupies memory for less time
  };

  std::string producer;
  std::string consumer;
  int operand = 0;
  Place place = Place::producer;
  /// True if the fused op can also write the producer's result, as its last result.
  bool can_keep_product = false;
  /// Returns the attributes of the fused op, or empty if the op cannot replace the pair.
  std::function<std::optional<Attributes>(const FusionPair&)> fit;
};

/// The rows of an op that treats each row apart from the others, and skips some. A row has one index of every dimension
/// but the last.
struct RoutedRows {
  /// The operand whose rows mark the others: the op skips those where all marks are 0.
  int marks = 0;
  /// Operands with these rows, whose skipped rows the op does not read.
  std::vector<int> operands = {};
  /// Results with these rows, whose skipped rows are 0. Either all results are among them, or each result is a sum over
  /// the rows.
  std::vector<int> results = {};
};

/// Everything that Strata knows about an op, except how a device computes it. The compiler asks the definition and
/// never compares names; only inputs and parameters are known by theirs (Node::is_leaf). Implementations keep no state,
/// because several threads call them.
class STRATA_API OpDefinition {
 public:
  virtual ~OpDefinition();

  /// The op's unique name, such as "linear". Graphs and programs refer to the op by it.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Version of this definition. Two plugins that register an op of the same name and version register the same op.
  [[nodiscard]] virtual int version() const;
  /// One or two sentences on operands, results and all attributes, of which a GraphBuilder refuses others.
  [[nodiscard]] virtual std::string documentation() const = 0;
  /// Infers the result types of `node` from its operands and attributes. \throws VerificationError if they do not fit.
  [[nodiscard]] virtual std::vector<TensorType> infer(const Graph& graph, const Node& node) const = 0;
  /// The op's iteration space. Default: every dimension of operands and results is iterated under its own name.
  [[nodiscard]] virtual IterationSpace iteration(const Graph& graph, const Node& node) const;
  /// The gradient rule. Empty (the default) if the op has no gradient.
  [[nodiscard]] virtual GradientRule gradient() const;
  /// The decomposition. Empty (the default) if no simpler ops replace the op.
  [[nodiscard]] virtual Decomposition decomposition() const;
  /// How generation computes the op for new positions of a sequence only. An op whose iteration() has the sequence as a
  /// dimension of its own in every result, neither renamed nor whole, needs no rule: the op itself is computed for the
  /// new positions. Such an op must not depend on the global index of the sequence. Every other op that reads the
  /// sequence needs a rule, or is refused. Default: empty.
  [[nodiscard]] virtual ContinuationRule continuation() const;
  /// How the op mixes the positions of a sequence. Empty (the default) if it does not, or does not say so: strategies
  /// then gather every dimension that it needs whole.
  [[nodiscard]] virtual std::optional<PositionMixing> mixing(const Graph& graph, const Node& node) const;
  /// True if operand `operand` only chooses what the op computes, such as the scores of a top-k selection. The results
  /// jump where another choice begins and are constant in between, so the gradient rule gives the operand none, or
  /// zeros. Checks of gradients then ask for that, and try no finite differences. Default: false.
  [[nodiscard]] virtual bool only_chooses(int operand) const;
  /// Floating-point operations and bytes of one execution, for the global sizes of the graph. Default: one operation
  /// per element of the largest result, and the bytes of all operands and results once.
  [[nodiscard]] virtual Cost cost(const Graph& graph, const Node& node) const;
  /// The operands whose memory result `result` may reuse. That is correct if the kernel reads element i (for row-wise
  /// ops, row i) of the operand before it writes element i, and never later. Default: none.
  [[nodiscard]] virtual std::vector<int> in_place_operands(int result) const;
  /// Precision of a floating-point operand under mixed precision. infer() then gives the results their types.
  [[nodiscard]] virtual OperandPrecision operand_precision(int operand) const;

  /// True if the op reads the previous contents of result `result`, which is not among its operands. Default: false.
  /// Accumulating instructions need not say so, because the compiler knows that they read their results.
  [[nodiscard]] virtual bool reads_result(int result) const;
  /// True if result `result` keeps its contents from step to step, as a cache does. The op then reads its previous
  /// contents too, so reads_result() is true. The contents are arbitrary before the first step. Default: false.
  [[nodiscard]] virtual bool keeps_result(int result) const;
  /// True for a matrix product and its fused forms, which the compiler may split into chunks that overlap with chunks
  /// of a collective. The op splits along the first dimension of its first operand, which is also the first dimension
  /// of every result. Row i of the results may depend on row i of the operands that have that dimension, and on the
  /// whole of the other operands. Default: false.
  [[nodiscard]] virtual bool is_product() const;
  /// True for an op whose only result is the sum of its operands, element by element. The compiler may keep it partial
  /// over ranks, and may add operands to it where they are computed. Default: false.
  [[nodiscard]] virtual bool is_sum() const;
  /// The rows of an op that skips some, such as tokens that choose no expert of a rank. The compiler may split the op
  /// along them, and ranks may leave out skipped rows where they exchange the others. Empty (the default) if it skips
  /// none.
  [[nodiscard]] virtual std::optional<RoutedRows> routed_rows() const;
  /// How the op works on flat buffers. Empty (the default) if it occurs in graphs only.
  [[nodiscard]] virtual std::optional<FlatSignature> flat_signature(const Attributes& attributes) const;
  /// For a fused op: the pairs of instructions that it replaces if the device has a kernel for it. Default: none.
  [[nodiscard]] virtual std::vector<FusionPattern> fusions() const;
};

/// An op on flat buffers that never occurs in graphs, such as a part of an optimizer's update.
class FlatOp : public OpDefinition {
 public:
  FlatOp(std::string name, std::string documentation, FlatSignature signature)
      : name_(std::move(name)), documentation_(std::move(documentation)), signature_(std::move(signature)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::string documentation() const override { return documentation_; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& /*graph*/, const Node& node) const override {
    throw VerificationError("op " + node.op + " '" + node.name + "': works on flat buffers, not in graphs");
  }
  /// A step that is skipped keeps the values of an update and the states, which are in the results.
  [[nodiscard]] bool reads_result(int result) const override {
    return signature_.is_update || (!signature_.states.empty() && result >= signature_.outputs);
  }
  [[nodiscard]] std::optional<FlatSignature> flat_signature(const Attributes& /*attributes*/) const override {
    return signature_;
  }

 private:
  std::string name_;
  std::string documentation_;
  FlatSignature signature_;
};

/// All ops of a run. The host owns it. Plugins add to it in PluginFactory::provide.
class STRATA_API OpRegistry {
 public:
  OpRegistry();
  ~OpRegistry();
  OpRegistry(OpRegistry&&) noexcept;
  OpRegistry& operator=(OpRegistry&&) noexcept;

  /// Adds an op of the plugin `origin`. If the same name and version are registered already, the registered definition
  /// stays. \throws ConfigurationError that names both origins if another version is registered.
  void add(std::unique_ptr<OpDefinition> definition, const std::string& origin);
  /// The definition of `name`. \throws VerificationError that suggests the nearest registered name.
  [[nodiscard]] const OpDefinition& get(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const;
  /// Names of all registered ops, sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  /// The plugin that registered an op ("libstrata" for Strata's own). \throws VerificationError for an unknown op.
  [[nodiscard]] const std::string& origin(const std::string& name) const;

 private:
  struct Entry {
    std::unique_ptr<OpDefinition> definition;
    std::string origin;
  };

  [[nodiscard]] const Entry& entry(const std::string& name) const;

  std::map<std::string, Entry> entries_;
};

/// Appends `node` with the results that its op infers. \return its results.
[[nodiscard]] inline std::vector<Value> append_inferred(Graph& graph, const OpRegistry& registry, Node node) {
  node.results = registry.get(node.op).infer(graph, node);
  const auto count = static_cast<int>(node.results.size());
  const int id = graph.append(std::move(node));
  std::vector<Value> values;
  for (int result = 0; result < count; ++result) values.push_back({id, result});
  return values;
}

/// Ids of the nodes that need a gradient: trained parameters, and every node that depends on one.
[[nodiscard]] STRATA_API std::set<int> trained_nodes(const Graph& graph);

/// Appends the gradient of all loss sinks to `graph`: B nodes, W nodes and one parameter_gradient sink per
/// contribution. \throws VerificationError if an op on the way has no gradient.
STRATA_API void differentiate(Graph& graph, const OpRegistry& registry);

/// Replaces every op that has a decomposition, such as cross_entropy, by its simpler ops.
STRATA_API void decompose(Graph& graph, const OpRegistry& registry);

}  // namespace strata

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata {

/// The loop nest of an op: what the partitioner needs to know to shard it, and all it knows.
struct STRATA_API IterationSpace {
  /// Iteration dimension of each dimension of each operand and result (attention: K's "seq" iterates "kv_seq").
  std::vector<Dims> operands;
  std::vector<Dims> results;
  /// Dimensions that every rank needs whole.
  std::set<Dim> whole;
  /// How results missing a sharded iteration dimension are completed.
  Reduction reduction = Reduction::sum;
  /// Operands that may stay a partial sum because the op is linear in them and adds nothing else.
  std::set<int> partial_operands;

  /// Every iteration dimension once, in order of appearance.
  [[nodiscard]] Dims dims() const;
};

/// In which floating-point type a run of mixed precision hands an operand to its op. Says nothing of f64 runs, where
/// every value is f64.
enum class OperandPrecision : std::uint8_t {
  unchanged,  ///< the type that the model gave it: the op is not known to be accurate in another one
  low,        ///< the compute type: the op gains from a short type and adds up in f32 inside (matrix products)
  any,        ///< whatever type it has: a short one costs the op no accuracy of its own
  common      ///< the widest type among the op's operands of this kind
};

/// What one execution costs, for the sizes of the graph.
struct Cost {
  double flops = 0;  ///< a multiply-add counts as two
  double bytes = 0;  ///< operands read plus results written
};

/// Lets an op's gradient rule read the forward node and emit nodes of the same graph.
class STRATA_API GradientContext {
 public:
  virtual ~GradientContext();

  [[nodiscard]] virtual const Graph& graph() const = 0;
  [[nodiscard]] virtual const Node& node() const = 0;
  [[nodiscard]] Value operand(int index) const { return node().operands.at(static_cast<std::size_t>(index)); }
  [[nodiscard]] Value result(int index) const { return {node().id, index}; }
  /// Gradient of the loss by result `index`; empty where none flows (and always for a loss, whose own gradient is one).
  [[nodiscard]] virtual std::optional<Value> cotangent(int index) = 0;
  /// False for inputs and integers.
  [[nodiscard]] virtual bool needs_gradient(int operand) const = 0;
  /// Emits a node whose results go to `operand` alone: a W node if that is a parameter, else a B node.
  virtual std::vector<Value> emit(int operand, const std::string& op, std::vector<Value> operands,
                                  Attributes attributes) = 0;
  /// Adds a term to the gradient of `operand`. Parameters' terms become sinks and are never summed in the graph.
  virtual void contribute(int operand, Value gradient) = 0;
};

/// Lets an op that is a short-hand replace itself by simpler ones.
class STRATA_API DecomposeContext {
 public:
  virtual ~DecomposeContext();
  [[nodiscard]] virtual const Graph& graph() const = 0;
  [[nodiscard]] virtual const Node& node() const = 0;
  /// Emits a node with the block and phase of node(). \return one value per result.
  virtual std::vector<Value> emit(const std::string& op, std::vector<Value> operands, Attributes attributes) = 0;
  /// Says which value stands for result `index` from now on.
  virtual void replace(int index, Value value) = 0;
};

/// Everything that Strata knows of an op except how a device computes it.
class STRATA_API OpDefinition {
 public:
  virtual ~OpDefinition();

  [[nodiscard]] virtual std::string name() const = 0;
  /// One sentence: operands, results, attributes.
  [[nodiscard]] virtual std::string documentation() const = 0;
  /// Result types of `node` from its operands and attributes. \throws VerificationError when they do not fit.
  [[nodiscard]] virtual std::vector<TensorType> infer(const Graph& graph, const Node& node) const = 0;
  [[nodiscard]] virtual IterationSpace iteration(const Graph& graph, const Node& node) const;
  /// Emits the gradient of every operand that needs one. \throws VerificationError for an op without a gradient.
  virtual void gradient(GradientContext& context) const;
  /// Replaces the node by simpler ones; false where the op stands for itself.
  virtual bool decompose(DecomposeContext& context) const;
  [[nodiscard]] virtual Cost cost(const Graph& graph, const Node& node) const;
  /// The operands whose memory the result `result` may take over, because its element i depends on no other element of
  /// them (of their row, for row-wise ops) once that is read.
  [[nodiscard]] virtual std::vector<int> in_place_operands(int result) const;
  /// Types of operands under mixed precision; results follow by infer(). Integer operands are not asked for.
  [[nodiscard]] virtual OperandPrecision operand_precision(int operand) const;
};

/// All known ops; owned by the host, one per process or per test. Plugins add to it through their factory.
class STRATA_API OpRegistry {
 public:
  OpRegistry();
  ~OpRegistry();
  OpRegistry(OpRegistry&&) noexcept;
  OpRegistry& operator=(OpRegistry&&) noexcept;

  /// \throws ConfigurationError if the name is taken.
  void add(std::unique_ptr<OpDefinition> definition);
  /// \throws VerificationError naming the nearest known op.
  [[nodiscard]] const OpDefinition& get(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::map<std::string, std::unique_ptr<OpDefinition>> definitions_;
};

/// Registers the ops that Strata brings (sdk/src/ops, one file a family).
STRATA_API void register_core_ops(OpRegistry& registry);

/// Appends to `graph` the gradient of all its loss sinks: B and W nodes, and one parameter_gradient sink per
/// contribution.
STRATA_API void differentiate(Graph& graph, const OpRegistry& registry);

/// Replaces every short-hand op (cross_entropy) by its pieces.
STRATA_API void decompose(Graph& graph, const OpRegistry& registry);

}  // namespace strata

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/emitter.hpp"
#include "strata/export.hpp"
#include "strata/program.hpp"
#include "strata/tensor.hpp"

/// \file
/// The hooks of a strategy that sums gradients over an axis itself (GradientHooks). A worker is a rank's coordinate
/// along the strategy's self-reduced axes.

namespace strata {

struct ParameterDescription;

/// A state that a strategy keeps for gradients. It is zero before the first step.
struct GradientState {
  /// Unique among the states of the parameters, such as "compression_error". Checkpoints contain it.
  std::string name;
  /// True: each worker has its own, of which only the sum over the workers matters. A run with other workers continues
  /// from that sum. False: the workers hold the same.
  bool is_of_worker = false;
  /// Empty: one number for every element of the parameter, sharded as the optimizer's states are. Set: the names and
  /// sizes of the state's own dimensions. Every rank has all of them.
  std::optional<std::vector<std::pair<Dim, std::int64_t>>> dims = std::nullopt;
};

/// A bucket of trained parameters at the end of a step, seen from a rank that updates a piece of it. The gradient is
/// summed over all axes but the self-reduced ones. emit() appends an instruction that is executed before the norm of
/// the gradient is computed. Communication is over axes().
class STRATA_API ReductionContext : public Emitter {
 public:
  ~ReductionContext() override;

  /// The strategy's self-reduced axes that have several ranks.
  [[nodiscard]] virtual const std::vector<Axis>& axes() const = 0;
  /// The only parameter of the bucket. Null if the bucket may hold several (GradientHooks::wants_own_bucket).
  [[nodiscard]] virtual const ParameterDescription* parameter() const = 0;
  /// Elements of this rank's piece.
  [[nodiscard]] virtual std::int64_t elements() const = 0;
  /// Type of states: f32, or f64 in f64 runs.
  [[nodiscard]] virtual DType dtype() const = 0;
  /// The piece's gradient. Before: this worker's. After: the sum over the workers.
  [[nodiscard]] virtual BufferId gradient() const = 0;
  /// The factor, a scalar in f64, that makes the gradient of a worker its share of the mean gradient over all tokens:
  /// 1 / (tokens of all workers · loss scale). 0 if no token has a target.
  [[nodiscard]] virtual BufferId unit() const = 0;
  /// The factor of the gradients of all parameters, with clipping: a scalar in f64. Only emit_after() may read it. If
  /// it is 0 or not finite, the step applies no gradient, so states must stay as they are.
  [[nodiscard]] virtual BufferId scale() const = 0;

  /// Adds a state. The host plans it, and saves it in checkpoints. \throws ConfigurationError if the name is taken.
  virtual BufferId add_state(const GradientState& state) = 0;
  /// An instruction of an op on flat buffers (OpDefinition::flat_signature). The op gets the global indices of the
  /// piece ("flat") and, if the bucket has one parameter, of its dimensions.
  [[nodiscard]] virtual Instruction flat(const std::string& op, const std::string& name, std::vector<BufferId> operands,
                                         std::vector<BufferId> results, Attributes attributes) const = 0;
  /// Sums a buffer in place over the ranks of this worker that hold other elements of the bucket.
  virtual void sum_over_pieces(BufferId buffer, const std::string& name) = 0;
  /// Appends an instruction that is executed after the scale is known and before the optimizer's update.
  virtual void emit_after(Instruction instruction) = 0;
};

/// A piece in which ranks store a parameter, for definitions of what depends on pieces.
struct DefinedPiece {
  /// Row-major indices of the piece's elements in the whole parameter, in the order in which the rank stores them.
  std::vector<std::int64_t> elements;
  /// Elements of the rank's buffer, with padding.
  std::int64_t size = 0;
};

/// The reduction of the gradient of one whole parameter in one step.
struct DefinedGradient {
  const ParameterDescription& parameter;
  /// The share of each worker in the mean gradient over all tokens, in the order of the workers. Elements are
  /// row-major.
  const std::vector<std::vector<double>>& shares;
  /// The pieces of the stack that is verified. Together they have every element once.
  const std::vector<DefinedPiece>& pieces;
  /// What the definition keeps from step to step, by names of its choice. Empty before the first step. The host undoes
  /// changes if the step applies no gradient.
  std::map<std::string, std::vector<double>>& states;
  /// The result: the sum over the workers, exact or not. Zero before the call.
  std::vector<double>& gradient;
};

/// What a strategy also derives from if it sums gradients itself.
class STRATA_API GradientHooks {
 public:
  virtual ~GradientHooks();

  /// Those of the strategy's axes over which reduce_gradient() sums gradients in place of the host. Ranks along them
  /// hold the same values. Only "batch" may be mapped onto such an axis, and storage may not be sharded over it. At
  /// most one strategy of a stack may name some.
  [[nodiscard]] virtual std::vector<Axis> self_reduced_axes() const = 0;
  /// True if a parameter gets a bucket of its own, so that instructions on its gradient can treat it as a matrix or
  /// depend on its dimensions. Default: false.
  [[nodiscard]] virtual bool wants_own_bucket(const ParameterDescription& parameter) const;
  /// Sums the gradient of one bucket over the self-reduced axes. Called once per bucket, on ranks that update it.
  /// Default: an all_reduce.
  virtual void reduce_gradient(ReductionContext& context) const;
  /// Defines, in plain code, the effect of reduce_gradient() on one whole parameter. `strata verify` proves that the
  /// two are equal. Default: the sum of the shares.
  virtual void define_gradient(DefinedGradient& gradient) const;
};

}  // namespace strata

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/plugin.hpp"
#include "strata/program.hpp"
#include "strata/strategy.hpp"
#include "strata/tensor.hpp"

/// \file
/// How to write an optimizer. It names its states, says how parameters are updated, and defines the update in plain
/// code on one whole parameter. `strata verify` proves that the first under any stack of strategies equals the second.

namespace strata {

/// A buffer of a rank's program, and the dimension names by which an op addresses its elements, row-major.
struct NamedBuffer {
  BufferId buffer = -1;
  Dims dims;
};

/// Emits ops on one whole parameter, on the rank that has gathered it (UpdateContext::on_whole).
class STRATA_API WholeContext {
 public:
  virtual ~WholeContext();
  /// Size of a dimension of the parameter, or of one that rename() has added. A dimension that is kept apart may be
  /// sharded; the size is that of this rank's shard.
  [[nodiscard]] virtual std::int64_t size(const Dim& dim) const = 0;
  /// Type of the gathered values, and of results by default.
  [[nodiscard]] virtual DType dtype() const = 0;
  /// Another name for `dim`, so that a product can iterate it twice. The same `number` gives the same name.
  virtual Dim rename(const Dim& dim, int number) = 0;
  /// Emits `op`. \return its only result, which has the dimensions `result` and the type `type`.
  virtual NamedBuffer emit(const std::string& op, const std::vector<NamedBuffer>& operands, const Dims& result,
                           Attributes attributes, std::optional<DType> type) = 0;
  NamedBuffer emit(const std::string& op, const std::vector<NamedBuffer>& operands, const Dims& result,
                   Attributes attributes) {
    return emit(op, operands, result, std::move(attributes), std::nullopt);
  }
  /// A state with OptimizerState::is_of_whole. A dimension that occurs for the second time has the name rename(dim, 1).
  /// \throws ConfigurationError if the optimizer names no such state.
  virtual NamedBuffer state(const std::string& name) = 0;
  /// Adds `change`, which has the state's dimensions and type, to such a state. A step that is skipped changes nothing.
  virtual void change_state(const std::string& name, const NamedBuffer& change) = 0;
  /// The ops that `emit_ops` emits run only in steps whose number, counted from 0, is a multiple of `period`. Other ops
  /// may read what they compute from a state only. Example: the inverse root of a factor, every 20 steps.
  virtual void every(std::int64_t period, const std::function<void()>& emit_ops) = 0;
};

/// An optimizer state of one parameter. It is zero before the first step, stored in f32 (in f64 for f64 parameters) and
/// part of checkpoints. Example: a factor of Shampoo is {"left", Dims{"embed", "embed"}, true}.
struct OptimizerState {
  /// Part of the state's name in checkpoints, such as "momentum". "master" and "average" are taken.
  std::string name;
  /// Empty: one number for every element of the parameter, sharded as the strategies decide. Set: one number for every
  /// index of these dimensions of the parameter, of which one may occur twice. Every rank that updates the parameter
  /// has all of them. That needs Optimizer::wants_own_bucket().
  std::optional<Dims> dims = std::nullopt;
  /// True: only the rank that has the whole parameter in UpdateContext::on_whole() has the state, also without `dims`.
  /// WholeContext reads and changes it. It is never offloaded.
  bool is_of_whole = false;
};

/// The operands of an update besides the scale of the gradient.
struct UpdateOperands {
  /// Takes the place of the gradient and is neither scaled nor clipped. -1: the gradient.
  BufferId direction = -1;
  /// Operands after the scale.
  std::vector<BufferId> further = {};
};

/// Changes a whole parameter's direction. It is called once for several parameters of equal dimensions and storage, so
/// it must depend on these only. The result has the dimensions of `direction` in the same order.
using WholeFunction = std::function<NamedBuffer(WholeContext& context, const NamedBuffer& direction)>;

/// Emits the update of one flat bucket of parameters at the end of a step. A rank sees its piece of the bucket.
class STRATA_API UpdateContext {
 public:
  virtual ~UpdateContext();
  /// The parameter of the bucket. \throws ConfigurationError unless wants_own_bucket() is true.
  [[nodiscard]] virtual const ParameterDescription& parameter() const = 0;
  /// Number of indices of some of the parameter's dimensions: the product of their global sizes.
  [[nodiscard]] virtual std::int64_t elements(const Dims& dims) const = 0;
  /// This rank's piece of the gradient. Its scale is still to be applied.
  [[nodiscard]] virtual BufferId gradient() const = 0;
  /// The factor of the gradient, in f64. If it is not finite, the step is skipped: nothing may change.
  [[nodiscard]] virtual BufferId scale() const = 0;
  /// This rank's piece of the parameters, or of their master copy if they have a short type.
  [[nodiscard]] virtual BufferId values() const = 0;
  /// A state of the optimizer. \throws ConfigurationError if it names no such state.
  [[nodiscard]] virtual BufferId state(const std::string& name) const = 0;

  /// Emits the update by `op`, whose FlatSignature has `is_update` set. The operands are the gradient, its scale, and
  /// those that the optimizer adds. The results are the values, a master copy if they have a short type, and the states
  /// that the op names. The host adds the UpdateAttributes. Called once. \throws ConfigurationError if the op is no
  /// such update.
  virtual void update(const std::string& op, Attributes attributes, const UpdateOperands& operands) = 0;
  void update(const std::string& op, Attributes attributes) { update(op, std::move(attributes), {}); }
  /// Emits `op`, which makes a direction of the gradient and its scale, and may change states
  /// (UpdateDescription::makes_direction). \return this rank's piece of the direction, in f32 (f64 in f64 runs).
  virtual BufferId direction(const std::string& op, Attributes attributes) = 0;
  /// Emits `op`, whose result has `count` numbers in f64: sums over this rank's piece. \return their sums over all
  /// ranks that hold other elements. The op gets the global indices of the piece ("flat") and of the parameter's
  /// dimensions.
  virtual BufferId sums(const std::string& op, const std::vector<BufferId>& operands, std::int64_t count,
                        Attributes attributes) = 0;
  /// Emits `op`, which changes the states that its FlatSignature names.
  virtual void change_states(const std::string& op, const std::vector<BufferId>& operands, Attributes attributes) = 0;
  /// Lets `function` change `direction` as a whole parameter, although ranks hold pieces of it: ranks that share
  /// parameters exchange their pieces, so that each rank has other parameters as a whole, and exchange the results
  /// back. Dimensions in `apart` may stay sharded. Values are exchanged in bf16 if that is the type of the parameter,
  /// else in the type of the direction. Called at most once per update. \return this rank's piece of the result.
  virtual BufferId on_whole(BufferId direction, const Dims& apart, WholeFunction function) = 0;
};

/// Names of the attributes that the host adds to every update op:
/// - `weight_decay`, a number, which applies to
/// - `decay_elements`, an integer: the first so many elements of the whole bucket;
/// - `lr_factor`, a number: the factor of StepContext::learning_rate for this group of parameters;
/// - `clip_value`, a number, only if gradients are clipped by value: each element of the scaled gradient is limited to
///   it in both directions;
/// - `is_direction`, true if the first operand is a direction instead of a gradient: the op does not scale it.
struct UpdateAttributes {
  static constexpr const char* kWeightDecay = "weight_decay";
  static constexpr const char* kDecayElements = "decay_elements";
  static constexpr const char* kLearningRateFactor = "lr_factor";
  static constexpr const char* kClipValue = "clip_value";
  static constexpr const char* kIsDirection = "is_direction";
};

/// One step of one whole parameter, for the definition of an optimizer.
struct DefinedUpdate {
  const ParameterDescription& parameter;
  /// Sizes of the parameter's dimensions. Elements are row-major.
  const Shape& shape;
  std::vector<double>& values;
  /// The gradient, after clipping.
  const std::vector<double>& gradient;
  /// The optimizer's states by name, row-major. They are zero before the first step.
  std::map<std::string, std::vector<double>>& states;
  double learning_rate = 0;
  /// 0 for a parameter that does not decay.
  double weight_decay = 0;
  /// The number of this update, counted from 1.
  std::int64_t step = 1;
  /// True in the steps of WholeContext::every(period). They are counted from 0, and those that are skipped count too.
  [[nodiscard]] bool is_every(std::int64_t period) const { return training_step % period == 0; }
  std::int64_t training_step = 0;
};

/// Updates parameters by their gradients. Implementations keep no state, because several threads call them.
class STRATA_API Optimizer {
 public:
  virtual ~Optimizer();

  /// The states that the optimizer keeps of a parameter. They may depend on the parameter only if
  /// wants_own_bucket(). Default: none.
  [[nodiscard]] virtual std::vector<OptimizerState> states(const ParameterDescription& parameter) const;
  /// True if every parameter gets a bucket of its own, so that updates can treat it as a matrix or depend on its
  /// dimensions. Default: false, so small parameters are updated together.
  [[nodiscard]] virtual bool wants_own_bucket() const;
  /// Why the optimizer cannot train a parameter, such as "it has 1 dimension; accepted: 2". Empty (the default): it
  /// can.
  [[nodiscard]] virtual std::optional<std::string> refusal(const ParameterDescription& parameter) const;
  /// Emits the update of a bucket.
  virtual void update(UpdateContext& context) const = 0;
  /// Defines the update: changes `update.values` and `update.states`.
  virtual void define(DefinedUpdate& update) const = 0;
};

/// The factory of an optimizer plugin. Learning rate, weight decay, clipping, schedule and groups are no options of it:
/// the host reads them.
class STRATA_API OptimizerFactory : public PluginFactory {
 public:
  ~OptimizerFactory() override;
  [[nodiscard]] virtual std::unique_ptr<Optimizer> create(const Options& options) const = 0;
};

}  // namespace strata

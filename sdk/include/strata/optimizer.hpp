#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"
#include "strata/tensor.hpp"

/// \file
/// How to write an optimizer. It names its states, says how parameters are updated, and defines the update in plain
/// code on one whole parameter. `strata verify` proves that the first under any stack of strategies equals the second.

namespace strata {

/// Emits the update of one flat bucket of parameters at the end of a step. A rank sees its piece of the bucket.
class STRATA_API UpdateContext {
 public:
  virtual ~UpdateContext();
  /// Emits the update by `op`, whose FlatSignature has `is_update` set and the states of the optimizer. The operands
  /// are the gradient and its scale; the results are the values, a master copy if they have a short type, and the
  /// states. The host adds the UpdateAttributes. \throws ConfigurationError if the op is no such update.
  virtual void update(const std::string& op, Attributes attributes) = 0;
};

/// Names of the attributes that the host adds to every update op:
/// - `weight_decay`, a number, which applies to
/// - `decay_elements`, an integer: the first so many elements of the whole bucket;
/// - `lr_factor`, a number: the factor of StepContext::learning_rate for this group of parameters;
/// - `clip_value`, a number, only if gradients are clipped by value: each element of the scaled gradient is limited to
/// it
///   in both directions.
struct UpdateAttributes {
  static constexpr const char* kWeightDecay = "weight_decay";
  static constexpr const char* kDecayElements = "decay_elements";
  static constexpr const char* kLearningRateFactor = "lr_factor";
  static constexpr const char* kClipValue = "clip_value";
};

/// One step of one whole parameter, for the definition of an optimizer.
struct DefinedUpdate {
  /// Sizes of the parameter's dimensions. Elements are row-major.
  const Shape& shape;
  std::vector<double>& values;
  /// The gradient, after clipping.
  const std::vector<double>& gradient;
  /// The optimizer's states by name, each with as many elements as the parameter. They are zero before the first step.
  std::map<std::string, std::vector<double>>& states;
  double learning_rate = 0;
  /// 0 for a parameter that does not decay.
  double weight_decay = 0;
  /// The number of this update, counted from 1.
  std::int64_t step = 1;
};

/// Updates parameters by their gradients. Implementations keep no state, because several threads call them.
class STRATA_API Optimizer {
 public:
  virtual ~Optimizer();

  /// Names of the states that the optimizer keeps for every element of a parameter, such as "momentum". They are zero
  /// at first, stored in f32 (in f64 for f64 parameters), sharded as the strategies decide, and part of checkpoints.
  /// "master" is taken. Default: none.
  [[nodiscard]] virtual std::vector<std::string> states() const;
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

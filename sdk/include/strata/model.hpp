#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/plugin.hpp"

namespace strata {

/// A model turns its options into a logical graph. It contains no parallel code.
class STRATA_API Model {
 public:
  virtual ~Model();
  /// Tokens in one sequence: the size of "seq".
  [[nodiscard]] virtual std::int64_t context() const = 0;
  /// Rows of the vocabulary if the options fix them, at least as many as the data has. Empty: as many as the data has.
  [[nodiscard]] virtual std::optional<std::int64_t> vocab() const = 0;
  /// Appends the forward pass. It reads the inputs "tokens" and "positions" and, for the loss, "targets", and it
  /// registers the output "logits". The host has defined "batch" and "vocab". \throws ConfigurationError if sizes do
  /// not fit.
  virtual void build(GraphBuilder& builder) const = 0;
};

/// Properties that a smaller model must keep so that a stack of strategies works on it as on the full one.
struct ShrinkRequest {
  /// A divisor of each dimension's size; 1 for absent dimensions.
  std::map<Dim, std::int64_t> multiples;
  /// True if the stack places blocks on stages, so the number of blocks stays.
  bool keeps_blocks = false;
};

/// The factory of a model plugin.
class STRATA_API ModelFactory : public PluginFactory {
 public:
  ~ModelFactory() override;
  /// Creates the model from checked options. \throws OptionError if options contradict each other.
  [[nodiscard]] virtual std::unique_ptr<Model> create(const Options& options) const = 0;
  /// The options of the smallest model of the same kind that fits `request`, for `strata verify`. It has at least two
  /// layers. Dropout and tied weights stay as they are.
  [[nodiscard]] virtual Options shrink(const Options& options, const ShrinkRequest& request) const = 0;
};

}  // namespace strata

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

/// A model: a function from options to a logical graph. Nothing parallel.
class STRATA_API Model {
 public:
  virtual ~Model();
  /// Tokens of context that one sequence has (the size of "seq").
  [[nodiscard]] virtual std::int64_t context() const = 0;
  /// Rows of the vocabulary if the options fix them (at least as many as the data has); empty: as many as the data has.
  [[nodiscard]] virtual std::optional<std::int64_t> vocab() const = 0;
  /// Appends the forward pass: inputs "tokens" and "positions" and, for the loss, "targets"; output "logits".
  /// "batch" and "vocab" are defined already. \throws ConfigurationError for sizes that do
  /// not fit.
  virtual void build(GraphBuilder& builder) const = 0;
};

/// What a small model must still have so that a stack works on it as on the full one.
struct ShrinkRequest {
  /// By what each dimension must be divisible; 1 where absent.
  std::map<Dim, std::int64_t> multiples;
  /// True where the stack places blocks: their number stays.
  bool keeps_blocks = false;
};

/// What a model plugin hands to the host.
class STRATA_API ModelFactory : public PluginFactory {
 public:
  ~ModelFactory() override;
  [[nodiscard]] virtual std::unique_ptr<Model> create(const Options& options) const = 0;
  /// The options of the smallest model of the same kind that fits `request`: what `strata verify` runs. At least two
  /// layers; dropout and ties stay as they are.
  [[nodiscard]] virtual Options shrink(const Options& options, const ShrinkRequest& request) const = 0;
  virtual void register_ops(OpRegistry& registry) const;
};

}  // namespace strata

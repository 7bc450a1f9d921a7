#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/mesh.hpp"
#include "strata/op.hpp"
#include "strata/plugin.hpp"

namespace strata {

/// How gradients are gathered into flat buckets and reduced. Affects cost, never results.
struct GradientBuckets {
  /// A bucket is closed before it exceeds this many bytes (a larger parameter has one of its own).
  std::int64_t bytes = 25LL * 1024 * 1024;
  /// Reduce a bucket as soon as its last gradient is there, beside the rest of the backward pass.
  bool overlap = true;
};

/// A parallelism, or any other transformation of a training step. Every hook is optional; the host calls them in the
/// order of the configuration's [[strategy]] tables. A strategy never sees another strategy, a model's code or a rank.
class STRATA_API Strategy {
 public:
  virtual ~Strategy();

  /// Axes that it adds to the mesh, outermost first.
  [[nodiscard]] virtual std::vector<MeshAxis> axes() const;
  /// Mappings of named dimensions onto axes.
  [[nodiscard]] virtual std::vector<Rule> rules() const;
  /// May replace, clone or tag nodes of the forward graph, before differentiation.
  virtual void rewrite_forward(Graph& graph, const OpRegistry& registry) const;
  /// The same after differentiation.
  virtual void rewrite(Graph& graph, const OpRegistry& registry) const;
  /// Bucketing of gradient reductions; the first strategy of the stack that answers decides.
  [[nodiscard]] virtual std::optional<GradientBuckets> gradient_buckets() const;
};

/// What a strategy plugin hands to the host.
class STRATA_API StrategyFactory : public PluginFactory {
 public:
  ~StrategyFactory() override;
  [[nodiscard]] virtual std::unique_ptr<Strategy> create(const Options& options) const = 0;
  /// Adds the ops that the strategy's rewrites use.
  virtual void register_ops(OpRegistry& registry) const;
};

}  // namespace strata

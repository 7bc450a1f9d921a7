/// exact: a strategy that makes every value of a run f64, so that runs of the ordinary commands can be compared
/// exactly.

#include <vector>

#include "strata/op.hpp"
#include "strata/strategy.hpp"

namespace {

using namespace strata;

class Exact final : public Strategy {
 public:
  void rewrite_forward(Graph& graph, const OpRegistry& registry) const override {
    for (const Node& each : std::vector<Node>(graph.nodes())) {
      Node& node = graph.node(each.id);
      if (!node.is_leaf()) {
        node.results = registry.get(node.op).infer(graph, node);
      } else if (node.results.front().dtype == DType::f32) {
        node.results.front().dtype = DType::f64;
      }
    }
  }
};

class ExactFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& /*options*/) const override {
    return std::make_unique<Exact>();
  }

 private:
  OptionSchema schema_;
};

}  // namespace

STRATA_PLUGIN(strategy, "exact", "1.0.0", "Apache-2.0", "Makes every value of a run f64.", ExactFactory);

#include "folded.hpp"

#include <memory>

#include "strata/op.hpp"
#include "strata/reference_kernel.hpp"

namespace drawn {
namespace {

using namespace strata;

constexpr const char* kFoldedGradient = "folded_gradient";

class Folded final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return kFolded; }
  [[nodiscard]] std::string documentation() const override { return "x -> x / (1 + x · x), element by element."; }

  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }

  [[nodiscard]] GradientRule gradient() const override {
    return [](GradientContext& context) {
      const Value dy = *context.cotangent(0);
      context.contribute(0, context.emit(0, kFoldedGradient, {dy, context.operand(0)}, {})[0]);
    };
  }

  [[nodiscard]] std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
};

class FoldedGradient final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return kFoldedGradient; }
  [[nodiscard]] std::string documentation() const override { return "dy, x -> dy · (1 - x · x) / (1 + x · x)²."; }

  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(1))};
  }
};

reference::Work define_folded(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const reference::Launch& launch) {
    const reference::Reader x = launch.operand(0);
    for (std::int64_t i = 0; i < count; ++i) launch.result(0).set(i, x[i] / (1 + x[i] * x[i]));
  };
}

reference::Work define_folded_gradient(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const reference::Launch& launch) {
    const reference::Reader dy = launch.operand(0);
    const reference::Reader x = launch.operand(1);
    for (std::int64_t i = 0; i < count; ++i) {
      const double square = x[i] * x[i];
      launch.result(0).set(i, dy[i] * (1 - square) / ((1 + square) * (1 + square)));
    }
  };
}

}  // namespace

void register_folded(Registration& registration) {
  registration.add(std::make_unique<Folded>());
  registration.add(std::make_unique<FoldedGradient>());
  registration.add(reference::kernel({kFolded, "r", "r", define_folded}));
  registration.add(reference::kernel({kFoldedGradient, "rr", "r", define_folded_gradient}));
}

}  // namespace drawn

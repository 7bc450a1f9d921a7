/// my_plugin: an op with its gradient and kernels.

#include "strata/kernel_tools.hpp"
#include "strata/plugin.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace {

using namespace strata;

/// x -> x · x, element by element.
class MyPluginOp final : public OpDefinition {
 public:
  std::string name() const override { return "my_plugin"; }
  std::string documentation() const override { return "x -> x · x, element by element."; }

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const Value dy = *context.cotangent(0);
      context.contribute(0, context.emit(0, "my_plugin_gradient", {dy, context.operand(0)}, {})[0]);
    };
  }

  /// Element i of the result depends on element i of x only, so the result may overwrite x.
  std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
};

class MyPluginGradient final : public OpDefinition {
 public:
  std::string name() const override { return "my_plugin_gradient"; }
  std::string documentation() const override { return "dy, x -> 2 · x · dy."; }

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(1))};
  }
};

reference::Work define_my_plugin(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const reference::Launch& launch) {
    const reference::Reader x = launch.operand(0);
    for (std::int64_t i = 0; i < count; ++i) launch.result(0).set(i, x[i] * x[i]);
  };
}

reference::Work define_my_plugin_gradient(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const reference::Launch& launch) {
    const reference::Reader dy = launch.operand(0);
    const reference::Reader x = launch.operand(1);
    for (std::int64_t i = 0; i < count; ++i) launch.result(0).set(i, 2 * x[i] * dy[i]);
  };
}

/// A fast kernel for f32 in host memory.
PreparedKernel prepare_my_plugin(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  return {[count = kernels::elements(op.results[0])](const KernelArguments& arguments) {
    const auto* x = kernels::in<float>(arguments, 0);
    auto* y = kernels::out<float>(arguments, 0);
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * x[i];
  }};
}

class MyPluginFactory final : public LibraryFactory {
 public:
  const OptionSchema& options() const override { return schema_; }

  void provide(Registration& registration, const Options& /*options*/) const override {
    registration.add(std::make_unique<MyPluginOp>());
    registration.add(std::make_unique<MyPluginGradient>());
    registration.add(reference::kernel({"my_plugin", "r", "r", define_my_plugin}));
    registration.add(reference::kernel({"my_plugin_gradient", "rr", "r", define_my_plugin_gradient}));
    registration.add({.op = "my_plugin",
                      .runtime = "host",
                      .signature = {.operands = "t", .results = "t", .reals = {DType::f32}},
                      .rank = kStandardRank,
                      .prepare = prepare_my_plugin});
  }

 private:
  OptionSchema schema_;
};

}  // namespace

STRATA_PLUGIN(library, "my_plugin", "0.1.0", "Apache-2.0", "The op my_plugin, with its gradient and kernels.",
              MyPluginFactory);

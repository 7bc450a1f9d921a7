/// \file
/// What a model's graph may not be: each is refused with the node and what is accepted.

#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "stack_test.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"
#include "verify/op_gradients.hpp"
#include "verify/random_inputs.hpp"

namespace strata::testing {
namespace {

struct ModelFault {
  const char* name;
  GraphMode mode;
  std::function<void(GraphBuilder& builder, Value x)> build;
  std::string message;
};

void PrintTo(const ModelFault& fault, std::ostream* out) { *out << fault.name; }

class ModelFaults : public ::testing::TestWithParam<ModelFault> {
 protected:
  ModelFaults() { register_core(ops_, kernels_); }

  OpRegistry ops_;
  KernelRegistry kernels_;
};

TEST_P(ModelFaults, AreNamed) {
  Graph graph;
  GraphBuilder builder(graph, ops_, GetParam().mode, DType::f32);
  const auto build = [&] {
    builder.define_dim("batch", 4);
    builder.define_dim("channels", 3);
    GetParam().build(builder, builder.input("x", {"batch", "channels"}, DType::f32));
    if (GetParam().mode == GraphMode::training) differentiate(graph, ops_);
    decompose(graph, ops_);
    verify(graph, ops_, "decomposition");
  };
  try {
    build();
    FAIL() << "accepted";
  } catch (const VerificationError& error) {
    EXPECT_EQ(std::string(error.what()), GetParam().message);
  }
}

void add_loss_of(GraphBuilder& b, Value x, const std::string& op, const Attributes& attributes) {
  const Value w = b.parameter("w", {"channels"}, Initialization::normal(1), false);
  b.add_loss(b.op(op, {b.op("add", {x, w}, "sum")[0]}, "bad", attributes)[0]);
}

/// The norm's running averages are parameters of the kind that `make` makes.
void normalize(GraphBuilder& b, Value x, const std::function<Value(const std::string&)>& make) {
  const auto vector = [&](const std::string& name) {
    return b.parameter(name, {"channels"}, Initialization::normal(1), false);
  };
  const Value y = b.op("batch_norm", {x, vector("gain"), vector("bias"), make("mean"), make("variance")}, "norm",
                       {{"epsilon", 1e-5}, {"momentum", 0.1}})[0];
  b.output("y", y);
  b.add_loss(b.op("dot", {y, x}, "loss", {{"weight", 1.0}})[0]);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ModelFaults,
    ::testing::Values(
        ModelFault{"loss_of_another_type", GraphMode::training,
                   [](GraphBuilder& b, Value x) {
                     add_loss_of(b, x, "reduce_sum", {{"result", std::string()}, {"dtype", std::string("f32")}});
                   },
                   "the loss term 'bad' is []f32; accepted: [] f64"},
        ModelFault{
            "loss_whose_gradient_needs_one", GraphMode::training,
            [](GraphBuilder& b, Value x) {
              add_loss_of(b, x, "reduce_sum", {{"result", std::string()}, {"dtype", std::string("f64")}});
            },
            "the loss term 'bad' is made by the op reduce_sum, whose gradient needs that of its result; accepted: "
            "ops that begin a backward pass, such as dot, cross_entropy, z_loss and balance_loss"},
        ModelFault{
            "input_as_loss", GraphMode::training,
            [](GraphBuilder& b, Value) { b.add_loss(b.input("bad", {}, DType::f64)); },
            "the loss term 'bad' is made by the op input, whose gradient needs that of its result; accepted: ops "
            "that begin a backward pass, such as dot, cross_entropy, z_loss and balance_loss"},
        ModelFault{"missing_attribute", GraphMode::training,
                   [](GraphBuilder& b, Value x) {
                     b.op("dot", {x, x}, "bad");
                   },
                   "op dot 'bad': attribute 'weight' is missing; accepted: a number such as 1.0"},
        ModelFault{"attribute_of_another_type", GraphMode::training,
                   [](GraphBuilder& b, Value x) {
                     b.op("dot", {x, x}, "bad", {{"weight", std::int64_t{2}}});
                   },
                   "op dot 'bad': attribute 'weight' = 2 is of the wrong type; accepted: a number such as 1.0"},
        ModelFault{"misspelt_attribute", GraphMode::training,
                   [](GraphBuilder& b, Value x) {
                     b.op("activation", {x}, "bad", {{"kind", std::string("relu")}, {"kinds", true}});
                   },
                   "op activation 'bad': found the attribute 'kinds'; accepted: those that the op's documentation "
                   "names: x -> f(x), f by attribute kind: gelu_tanh, relu, silu, or another one of "
                   "activation_functions()."},
        ModelFault{
            "statistics_of_the_batch_in_evaluation", GraphMode::evaluation,
            [](GraphBuilder& b, Value x) {
              normalize(b, x, [&](const std::string& name) {
                return b.running_average(name, {"channels"}, Initialization::constant(1));
              });
            },
            "after decomposition: node %9 batch_normalize 'norm.batch_normalize': reads 'norm.batch_mean', which "
            "depends on all samples of a batch, so the evaluation of a sample would depend on its batch; accepted "
            "in evaluation: what training keeps, such as GraphBuilder::running_average()"},
        ModelFault{"trained_running_average", GraphMode::training,
                   [](GraphBuilder& b, Value x) {
                     normalize(b, x, [&](const std::string& name) {
                       return b.parameter(name, {"channels"}, Initialization::constant(1), false);
                     });
                   },
                   "op batch_norm 'norm': takes 'mean' as a running average; accepted: a "
                   "GraphBuilder::running_average()"},
        ModelFault{"nothing", GraphMode::training, [](GraphBuilder&, Value) {},
                   "after decomposition: nothing leaves the graph: the model adds no loss, as "
                   "GraphBuilder::cross_entropy_loss() and add_loss() do, and no output"}),
    [](const auto& info) { return info.param.name; });

/// After relu, windows have several largest pixels, all zero. The gradient of one of them is checked forwards.
TEST(OpGradientCheck, PassesPoolingOfEqualZeros) {
  OpRegistry ops;
  KernelRegistry kernels;
  register_core(ops, kernels);
  host::PluginRegistry plugins({plugin_folder()});
  const auto& factory = plugins.load<DeviceFactory>("reference");
  const auto device = factory.create(Options(factory.options(), {}), {.kernels = &kernels});
  Graph graph;
  GraphBuilder b(graph, ops, GraphMode::training, DType::f64);
  for (const auto& [dim, size] : DimSizes{{"batch", 2}, {"channels", 2}, {"height", 6}, {"width", 6}})
    b.define_dim(dim, size);
  for (const auto& [dim, size] : DimSizes{{"low_height", 3}, {"low_width", 3}}) b.define_dim(dim, size);
  const Value shift = b.parameter("shift", {"channels", "height", "width"}, Initialization::normal(1), false);
  const Value x = b.add(b.input("images", {"batch", "channels", "height", "width"}, DType::f64), shift, "shifted");
  const Value y = b.op("max_pool", {b.activation(x, "relu", "relu")}, "pool",
                       {{"result", std::string("batch channels low_height low_width")},
                        {"size", std::int64_t{2}},
                        {"stride", std::int64_t{2}},
                        {"padding", std::int64_t{0}}})[0];
  b.add_loss(b.op("dot", {y, y}, "loss", {{"weight", 1.0}})[0]);
  host::RandomInputs inputs(1, {{.name = "images", .dims = {"channels", "height", "width"}, .dtype = DType::f32}},
                            graph.sizes);
  for (const host::GradientCheck& each : host::check_gradients(graph, ops, *device, inputs, 1)) {
    EXPECT_TRUE(each.holds()) << each.op << " " << each.error << each.fault;
  }
}

}  // namespace
}  // namespace strata::testing

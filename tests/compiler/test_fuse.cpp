#include <gmock/gmock.h>

#include <map>
#include <set>

#include "compiler/passes/passes.hpp"
#include "program_sketch.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/host_memory_device.hpp"
#include "strata/registration.hpp"

namespace strata::host::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The ops for which a device has no kernel of its own.
struct Missing {
  std::set<std::string> unsupported = {};
  /// Ops whose kernel is a last resort.
  std::set<std::string> slow = {};
};

/// A device with fast kernels for all ops but some. It runs nothing.
class DeviceWithout final : public HostMemoryDevice {
 public:
  DeviceWithout(const KernelRegistry& kernels, Missing missing)
      : HostMemoryDevice("the test device", &kernels, std::make_unique<KernelEnvironment>("host", 1),
                         KernelPolicy::fastest),
        missing_(std::move(missing)) {}

  [[nodiscard]] std::string description() const override { return "test"; }
  [[nodiscard]] std::int64_t memory_bytes() const override { return 0; }
  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override {
    return missing_.unsupported.contains(instance.op) ? std::optional(instance.op) : std::nullopt;
  }
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& /*instance*/) const override { return 0; }
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& /*instance*/) override { return nullptr; }
  [[nodiscard]] std::optional<KernelChoice> kernel_choice(const OpInstance& instance) const override {
    if (unsupported(instance)) return std::nullopt;
    return KernelChoice{"the test", missing_.slow.contains(instance.op)};
  }
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t /*bytes*/) override { return nullptr; }

 private:
  Missing missing_;
};

/// A plugin's op: twice a product.
class ScaledProduct final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return "scaled_product"; }
  [[nodiscard]] std::string documentation() const override { return "x, w -> factor · linear(x, w)"; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }
  [[nodiscard]] std::vector<FusionPattern> fusions() const override {
    const auto fit = [](const FusionPair& pair) -> std::optional<Attributes> {
      if (pair.consumer.word("kind") != "twice") return std::nullopt;
      Attributes attributes = pair.producer;
      attributes.set("factor", std::int64_t{2});
      return attributes;
    };
    return {{.producer = "linear", .consumer = "scale", .operand = 0, .fit = fit}};
  }
};

/// A plugin's op on flat buffers that fuses two ops.
class ClippedNorm final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return "clipped_norm"; }
  [[nodiscard]] std::string documentation() const override { return "the factor that clips the norm of its operands"; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }
  [[nodiscard]] std::vector<FusionPattern> fusions() const override {
    const auto fit = [](const FusionPair& pair) { return std::optional(pair.consumer); };
    return {{.producer = "sum_of_squares", .consumer = "gradient_scale", .operand = 0, .fit = fit}};
  }
};

/// A feed-forward layer, up -> add -> activation, and the gradient of the layer after it.
class Fuse : public ::testing::Test {
 protected:
  Fuse() : sketch(program) {
    register_core(registry, kernels);
    registry.add(std::make_unique<ScaledProduct>(), "the test");
    registry.add(std::make_unique<ClippedNorm>(), "the test");
    program.mesh = Mesh({{"dp", 1}});
    sketch.task(Task::Kind::forward);
    sketch.task(Task::Kind::backward);
  }

  BufferId buffer(const std::string& name, const Dims& dims, bool persistent = false) {
    static const std::map<Dim, std::int64_t> kSizes = {{"rows", 6}, {"embed", 4}, {"ffn", 8}};
    const BufferId id = sketch.flat(name, persistent ? BufferKind::parameter : BufferKind::activation, 1, persistent);
    Buffer& made = program.buffers.back();
    made.dims = dims;
    made.shape.clear();
    for (const Dim& dim : dims) made.shape.push_back(kSizes.at(dim));
    return id;
  }

  Instruction& push(int task, Instruction instruction) {
    auto& instructions = program.tasks[static_cast<std::size_t>(task)].instructions;
    instructions.push_back(std::move(instruction));
    return instructions.back();
  }

  Instruction& op(int task, const std::string& op, const std::vector<BufferId>& inputs, BufferId output) {
    Instruction made = sketch.op(op, op, inputs, output);
    if (op.starts_with("activation")) made.as<Compute>()->attributes.set("kind", std::string("gelu_tanh"));
    return push(task, std::move(made));
  }

  void forward(int task) {
    op(task, "linear", {x, w}, product);
    op(task, "add", {product, b}, u);
    op(task, "activation", {u}, y);
  }

  [[nodiscard]] std::vector<std::string> ops_of(int task) const {
    std::vector<std::string> names;
    for (const Instruction& each : program.tasks[static_cast<std::size_t>(task)].instructions)
      names.push_back(work_name(each));
    return names;
  }

  [[nodiscard]] const Instruction& only(int task) const {
    EXPECT_EQ(program.tasks[static_cast<std::size_t>(task)].instructions.size(), 1U);
    return program.tasks[static_cast<std::size_t>(task)].instructions.front();
  }

  void fuse(const Missing& missing = {}) { fuse_instructions(program, registry, DeviceWithout(kernels, missing)); }

  OpRegistry registry;
  KernelRegistry kernels;
  Program program;
  ProgramSketch sketch;
  BufferId x = buffer("x", {"rows", "embed"});
  BufferId w = buffer("w", {"embed", "ffn"}, true);
  BufferId b = buffer("b", {"ffn"}, true);
  BufferId product = buffer("product", {"rows", "ffn"});
  BufferId u = buffer("u", {"rows", "ffn"});
  BufferId y = buffer("y", {"rows", "ffn"});

  BufferId dz = buffer("dz", {"rows", "embed"});
  BufferId v = buffer("v", {"ffn", "embed"}, true);
  BufferId dy = buffer("dy", {"rows", "ffn"});
  BufferId du = buffer("du", {"rows", "ffn"});
};

TEST_F(Fuse, KeepsWhatTheActivationReadsForTheBackwardPass) {
  forward(0);
  op(1, "linear", {dz, v}, dy);
  op(1, "activation_gradient", {dy, u}, du);
  fuse();
  const Instruction& up = only(0);
  EXPECT_EQ(work_name(up), "linear_bias_activation");
  EXPECT_THAT(up.inputs, ElementsAre(x, w, b));
  EXPECT_THAT(up.outputs, ElementsAre(y, u));
  EXPECT_TRUE(up.as<Compute>()->attributes.flag("saves_input"));
  EXPECT_EQ(up.as<Compute>()->attributes.word("kind"), "gelu_tanh");
  EXPECT_EQ(up.as<Compute>()->result_dims.size(), 2U);
  const Instruction& gradient = only(1);
  EXPECT_EQ(work_name(gradient), "linear_activation_gradient");
  EXPECT_THAT(gradient.inputs, ElementsAre(dz, v, u));
  EXPECT_THAT(gradient.outputs, ElementsAre(du));
  EXPECT_EQ(gradient.as<Compute>()->attributes.word("kind"), "gelu_tanh");
}

TEST_F(Fuse, DropsWhatNobodyElseReads) {
  forward(0);
  fuse();
  const Instruction& up = only(0);
  EXPECT_EQ(work_name(up), "linear_bias_activation");
  EXPECT_THAT(up.outputs, ElementsAre(y));
  EXPECT_FALSE(up.as<Compute>()->attributes.has("saves_input"));
}

TEST_F(Fuse, KeepsWhatIsReported) {
  forward(0);
  program.reports["hidden"] = u;
  fuse();
  EXPECT_THAT(only(0).outputs, ElementsAre(y, u));
}

TEST_F(Fuse, LeavesAReportedProductAlone) {
  forward(0);
  program.reports["hidden"] = product;
  fuse();
  EXPECT_THAT(ops_of(0), ElementsAre("linear", "add", "activation"));
}

TEST_F(Fuse, LeavesWhatTheDeviceLacksOrHasAsALastResortOnly) {
  const std::set<std::string> ops_without_kernel = {"linear_bias_activation", "linear_activation_gradient"};
  for (const Missing& missing : {Missing{.unsupported = ops_without_kernel}, Missing{.slow = ops_without_kernel}}) {
    for (Task& task : program.tasks) task.instructions.clear();
    forward(0);
    op(1, "linear", {dz, v}, dy);
    op(1, "activation_gradient", {dy, u}, du);
    fuse(missing);
    EXPECT_THAT(ops_of(0), ElementsAre("linear_bias", "activation"));
    EXPECT_THAT(ops_of(1), ElementsAre("linear", "activation_gradient"));
  }
}

/// A bias may be gathered. It is then complete before the product starts, or the product waits for it.
TEST_F(Fuse, AddsABiasThatIsGathered) {
  const BufferId gathered = buffer("gathered", {"ffn"});
  for (const bool before : {true, false}) {
    auto& instructions = program.tasks[0].instructions;
    instructions.clear();
    op(0, "linear", {x, w}, product);
    const Instruction gather = sketch.collective(CollectiveKind::all_gather, 1, "dp", b, gathered);
    instructions.insert(before ? instructions.begin() : instructions.end(), gather);
    op(0, "add", {product, gathered}, u);
    fuse();
    EXPECT_THAT(ops_of(0), ElementsAre("all_gather", "linear_bias"));
    EXPECT_THAT(instructions.back().inputs, ElementsAre(x, w, gathered));
    EXPECT_THAT(instructions.back().outputs, ElementsAre(u));
  }
}

TEST_F(Fuse, LeavesASumOfTwoThatAreAlike) {
  op(0, "linear", {x, w}, product);
  op(0, "add", {product, y}, u);
  fuse();
  EXPECT_THAT(ops_of(0), ElementsAre("linear", "add"));
}

TEST_F(Fuse, LeavesAPairThatDoesNotRunTogether) {
  op(0, "linear", {x, w}, product);
  op(0, "add", {product, b}, u).occurrence = Occurrence::last;
  fuse();
  EXPECT_THAT(ops_of(0), ElementsAre("linear", "add"));
}

/// The compiler knows no op by name: it fuses a plugin's op by the patterns that the op declares.
TEST_F(Fuse, TakesThePatternsOfAPluginsOp) {
  for (const bool fits : {true, false}) {
    program.tasks[0].instructions.clear();
    op(0, "linear", {x, w}, product);
    op(0, "scale", {product}, u).as<Compute>()->attributes.set("kind", std::string(fits ? "twice" : "thrice"));
    fuse();
    if (fits) {
      EXPECT_THAT(ops_of(0), ElementsAre("scaled_product"));
      EXPECT_EQ(only(0).as<Compute>()->attributes.integer("factor"), 2);
      EXPECT_THAT(only(0).outputs, ElementsAre(u));
    } else {
      EXPECT_THAT(ops_of(0), ElementsAre("linear", "scale"));
    }
  }
}

TEST_F(Fuse, TakesPatternsOfOpsOnFlatBuffers) {
  const auto make_flat = [](Instruction& instruction) {
    Compute& work = *instruction.as<Compute>();
    work.iteration.clear();
    work.operand_dims.clear();
    work.result_dims.clear();
  };
  for (const bool both : {true, false}) {
    program.tasks[0].instructions.clear();
    make_flat(op(0, "sum_of_squares", {x}, product));
    Instruction& scale = op(0, "gradient_scale", {product, b}, u);
    if (both) make_flat(scale);
    fuse();
    if (both) {
      EXPECT_EQ(work_name(only(0)), "clipped_norm");
      EXPECT_THAT(only(0).inputs, ElementsAre(x, b));
      EXPECT_THAT(only(0).as<Compute>()->operand_dims, IsEmpty());
      EXPECT_THAT(only(0).as<Compute>()->result_dims, IsEmpty());
    } else {
      EXPECT_THAT(ops_of(0), ElementsAre("sum_of_squares", "gradient_scale"));
    }
  }
}

/// The pair also iterates over a dimension that only the consumer has, such as the inner one of a second product.
TEST_F(Fuse, IteratesOverTheDimensionsOfBoth) {
  const auto dim = [](const Dim& name, std::int64_t size) { return ShardedDim{name, size, {}}; };
  for (const bool alike : {true, false}) {
    program.tasks[0].instructions.clear();
    op(0, "linear", {x, w}, product).as<Compute>()->iteration = {dim("rows", 6), dim("ffn", 8)};
    Instruction& scale = op(0, "scale", {product}, u);
    scale.as<Compute>()->attributes.set("kind", std::string("twice"));
    scale.as<Compute>()->iteration = {dim("ffn", alike ? 8 : 4), dim("inner", 3)};
    fuse();
    if (alike) {
      EXPECT_THAT(only(0).as<Compute>()->iteration, ElementsAre(dim("rows", 6), dim("ffn", 8), dim("inner", 3)));
    } else {
      EXPECT_THAT(ops_of(0), ElementsAre("linear", "scale"));
    }
  }
}

TEST_F(Fuse, AddsTheTermsOfASumOneToTheOther) {
  op(0, "linear", {x, w}, product);
  op(0, "linear", {x, w}, u);
  op(0, ops::kSum, {product, u}, y);
  op(1, "dropout", {y}, dy);
  fuse();
  EXPECT_THAT(ops_of(0), ElementsAre("linear", "linear"));
  EXPECT_THAT(program.tasks[0].instructions[1].outputs, ElementsAre(product));
  EXPECT_TRUE(program.tasks[0].instructions[1].as<Compute>()->accumulate);
  EXPECT_THAT(only(1).inputs, ElementsAre(product));
}

/// For example, a gradient to which every micro-batch adds.
TEST_F(Fuse, LeavesASumWhoseResultIsReadAfterTheTaskOrHasOtherWriters) {
  const BufferId gradient = buffer("gradient", {"rows", "ffn"}, true);
  const BufferId part = buffer("part of the gradient", {"rows", "ffn"});
  program.buffers.back().base = gradient;
  const auto leaves = [&](BufferId result, bool accumulate, bool written_before) {
    program.tasks[0].instructions.clear();
    if (written_before) op(0, "dropout", {dy}, result);
    op(0, "linear", {x, w}, product);
    op(0, "linear", {x, w}, u);
    op(0, ops::kSum, {product, u}, result).as<Compute>()->accumulate = accumulate;
    fuse();
    return ops_of(0).back() == ops::kSum;
  };
  EXPECT_TRUE(leaves(gradient, false, false));
  EXPECT_TRUE(leaves(part, false, false));
  EXPECT_TRUE(leaves(y, true, false));
  EXPECT_TRUE(leaves(y, false, true));
  EXPECT_FALSE(leaves(y, false, false));
}

TEST_F(Fuse, WaitsForWhatIsComputedAgainBetween) {
  op(1, "linear", {dz, v}, dy);
  forward(1);
  op(1, "activation_gradient", {dy, u}, du);
  fuse();
  EXPECT_THAT(ops_of(1), ElementsAre("linear_bias_activation", "linear_activation_gradient"));
}

TEST_F(Fuse, MultipliesFirstWhatAGatherBrings) {
  for (const bool gathered : {false, true}) {
    program.tasks[1].instructions.clear();
    push(1, sketch.collective(gathered ? CollectiveKind::all_gather : CollectiveKind::all_reduce, 1, "dp", x, dz));
    op(1, "linear", {dz, v}, dy);
    op(1, "linear", {y, dz}, product);
    op(1, "activation_gradient", {dy, u}, du);
    fuse();
    if (gathered) {
      EXPECT_THAT(ops_of(1), ElementsAre("all_gather", "linear_activation_gradient", "linear"));
    } else {
      EXPECT_THAT(ops_of(1), ElementsAre("all_reduce", "linear", "linear_activation_gradient"));
    }
  }
}

TEST_F(Fuse, LeavesAProductThatOthersRead) {
  op(1, "linear", {dz, v}, dy);
  op(1, "activation_gradient", {dy, u}, du);
  op(1, "dropout", {dy}, y);
  fuse();
  EXPECT_THAT(ops_of(1), ElementsAre("linear", "activation_gradient", "dropout"));
}

/// The fused op is usually placed late. It is placed early if an operand of the product changes before that.
TEST_F(Fuse, MultipliesBeforeAnOperandChanges) {
  op(1, "linear", {dz, v}, dy);
  op(1, "dropout", {x}, dz).as<Compute>()->accumulate = true;
  op(1, "activation_gradient", {dy, u}, du);
  fuse();
  EXPECT_THAT(ops_of(1), ElementsAre("linear_activation_gradient", "dropout"));
  EXPECT_THAT(program.tasks[1].instructions[0].inputs, ElementsAre(dz, v, u));
}

TEST_F(Fuse, LeavesAPairThatFitsNeitherEarlyNorLate) {
  op(1, "linear", {dz, v}, dy);
  op(1, "dropout", {x}, dz).as<Compute>()->accumulate = true;
  op(1, "dropout", {y}, u);
  op(1, "activation_gradient", {dy, u}, du);
  fuse();
  EXPECT_THAT(ops_of(1), ElementsAre("linear", "dropout", "dropout", "activation_gradient"));
}

TEST_F(Fuse, LeavesGradientsThatAreAddedUp) {
  op(1, "linear", {dz, v}, dy);
  op(1, "activation_gradient", {dy, u}, du).as<Compute>()->accumulate = true;
  fuse();
  EXPECT_THAT(ops_of(1), ElementsAre("linear", "activation_gradient"));
}

}  // namespace
}  // namespace strata::host::test

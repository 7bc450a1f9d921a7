#include <gmock/gmock.h>

#include <map>
#include <set>

#include "compiler/passes/fuse.hpp"
#include "program_sketch.hpp"
#include "strata/host_memory_device.hpp"

namespace strata::host::test {
namespace {

using ::testing::ElementsAre;

/// A device with kernels for all ops but some; nothing runs on it.
class DeviceWithout final : public HostMemoryDevice {
 public:
  explicit DeviceWithout(std::set<std::string> ops) : ops_(std::move(ops)) {}

  [[nodiscard]] std::string description() const override { return "test"; }
  [[nodiscard]] std::int64_t memory_bytes() const override { return 0; }
  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override {
    return ops_.contains(instance.op) ? std::optional(instance.op) : std::nullopt;
  }
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& /*instance*/) const override { return 0; }
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& /*instance*/) override { return nullptr; }
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t /*bytes*/) override { return nullptr; }

 private:
  std::set<std::string> ops_;
};

/// A feed-forward layer: up -> add -> activation, and the gradient of the one behind it.
class Fuse : public ::testing::Test {
 protected:
  Fuse() : sketch(program) {
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
    if (op.starts_with("activation")) made.attributes.set("kind", std::string("gelu_tanh"));
    return push(task, std::move(made));
  }

  void forward(int task) {
    op(task, "linear", {x, w}, product);
    op(task, "add", {product, b}, u);
    op(task, "activation", {u}, y);
  }

  [[nodiscard]] std::vector<std::string> ops(int task) const {
    std::vector<std::string> names;
    for (const Instruction& each : program.tasks[static_cast<std::size_t>(task)].instructions) names.push_back(each.op);
    return names;
  }

  [[nodiscard]] const Instruction& only(int task) const {
    EXPECT_EQ(program.tasks[static_cast<std::size_t>(task)].instructions.size(), 1U);
    return program.tasks[static_cast<std::size_t>(task)].instructions.front();
  }

  void fuse(const std::set<std::string>& missing = {}) { fuse_instructions(program, DeviceWithout(missing)); }

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
  EXPECT_EQ(up.op, "linear_bias_activation");
  EXPECT_THAT(up.inputs, ElementsAre(x, w, b));
  EXPECT_THAT(up.outputs, ElementsAre(y, u));
  EXPECT_TRUE(up.attributes.flag("saves_input"));
  EXPECT_EQ(up.attributes.word("kind"), "gelu_tanh");
  EXPECT_EQ(up.result_dims.size(), 2U);
  const Instruction& gradient = only(1);
  EXPECT_EQ(gradient.op, "linear_activation_gradient");
  EXPECT_THAT(gradient.inputs, ElementsAre(dz, v, u));
  EXPECT_THAT(gradient.outputs, ElementsAre(du));
  EXPECT_EQ(gradient.attributes.word("kind"), "gelu_tanh");
}

TEST_F(Fuse, DropsWhatNobodyElseReads) {
  forward(0);
  fuse();
  const Instruction& up = only(0);
  EXPECT_EQ(up.op, "linear_bias_activation");
  EXPECT_THAT(up.outputs, ElementsAre(y));
  EXPECT_FALSE(up.attributes.has("saves_input"));
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
  EXPECT_THAT(ops(0), ElementsAre("linear", "add", "activation"));
}

TEST_F(Fuse, LeavesWhatTheDeviceLacks) {
  forward(0);
  op(1, "linear", {dz, v}, dy);
  op(1, "activation_gradient", {dy, u}, du);
  fuse({"linear_bias_activation", "linear_activation_gradient"});
  EXPECT_THAT(ops(0), ElementsAre("linear_bias", "activation"));
  EXPECT_THAT(ops(1), ElementsAre("linear", "activation_gradient"));
}

TEST_F(Fuse, WaitsForWhatIsComputedAgainBetween) {
  op(1, "linear", {dz, v}, dy);
  forward(1);
  op(1, "activation_gradient", {dy, u}, du);
  fuse();
  EXPECT_THAT(ops(1), ElementsAre("linear_bias_activation", "linear_activation_gradient"));
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
      EXPECT_THAT(ops(1), ElementsAre("", "linear_activation_gradient", "linear"));
    } else {
      EXPECT_THAT(ops(1), ElementsAre("", "linear", "linear_activation_gradient"));
    }
  }
}

TEST_F(Fuse, LeavesAProductThatOthersRead) {
  op(1, "linear", {dz, v}, dy);
  op(1, "activation_gradient", {dy, u}, du);
  op(1, "dropout", {dy}, y);
  fuse();
  EXPECT_THAT(ops(1), ElementsAre("linear", "activation_gradient", "dropout"));
}

TEST_F(Fuse, LeavesAProductOfWhatChangesBetween) {
  op(1, "linear", {dz, v}, dy);
  op(1, "dropout", {x}, dz).accumulate = true;
  op(1, "activation_gradient", {dy, u}, du);
  fuse();
  EXPECT_THAT(ops(1), ElementsAre("linear", "dropout", "activation_gradient"));
}

TEST_F(Fuse, LeavesGradientsThatAreAddedUp) {
  op(1, "linear", {dz, v}, dy);
  op(1, "activation_gradient", {dy, u}, du).accumulate = true;
  fuse();
  EXPECT_THAT(ops(1), ElementsAre("linear", "activation_gradient"));
}

}  // namespace
}  // namespace strata::host::test

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "program_sketch.hpp"
#include "strata/registration.hpp"

namespace strata::host::test {
namespace {

using ::testing::ElementsAre;

/// The backward pass of a layer whose ranks share the tokens. `size` tokens and features make a product worth many
/// bytes: 2 · size³ FLOPs, and 4 · size² bytes of a gathered value. The pass wants 2000 FLOPs for a byte.
class EarlyCollectives : public ::testing::Test {
 protected:
  explicit EarlyCollectives(std::int64_t size = 8192) : sketch_(program_), size_(size) {
    KernelRegistry kernels;
    register_core(registry_, kernels);
    program_.mesh = Mesh({{"tp", 2}});
    sketch_.task(Task::Kind::backward);
  }

  BufferId value(const Dims& dims) {
    const BufferId id = sketch_.flat("value", BufferKind::activation, 1);
    program_.buffers.back().dims = dims;
    program_.buffers.back().shape = Shape(dims.size(), size_);
    return id;
  }

  void push(const std::string& name, Instruction instruction, int block = 1) {
    instruction.name = name;
    instruction.block = block;
    program_.tasks[0].instructions.push_back(std::move(instruction));
  }

  BufferId product(const std::string& name, BufferId left, BufferId right, const Dims& dims, int block = 1) {
    const BufferId result = value(dims);
    push(name, sketch_.op("linear", name, {left, right}, result), block);
    return result;
  }

  BufferId collective(const std::string& name, CollectiveKind kind, BufferId input, BufferKind content) {
    const BufferId result = value({"tokens", "embed"});
    Instruction made = sketch_.collective(kind, 1, "tp", input, result);
    made.as<Collective>()->content = content;
    push(name, std::move(made));
    return result;
  }

  BufferId all_gather(BufferId input, BufferKind content = BufferKind::activation) {
    return collective("gather", CollectiveKind::all_gather, input, content);
  }

  std::vector<std::string> order() {
    start_collectives_early(program_, registry_);
    std::vector<std::string> names;
    for (const Instruction& each : program_.tasks[0].instructions) names.push_back(each.name);
    return names;
  }

  OpRegistry registry_;
  Program program_;
  ProgramSketch sketch_;
  std::int64_t size_;
  BufferId gradient_ = value({"tokens", "ffn"});
  BufferId weight_ = value({"embed", "ffn"});
  BufferId shard_ = value({"tokens", "embed"});
};

TEST_F(EarlyCollectives, AGatherStartsBeforeAProductThatDoesNotNeedIt) {
  product("input gradient", gradient_, weight_, {"tokens", "embed"});
  const BufferId input = all_gather(shard_);
  product("weight gradient", input, gradient_, {"embed", "ffn"});
  EXPECT_THAT(order(), ElementsAre("gather", "input gradient", "weight gradient"));
}

TEST_F(EarlyCollectives, AReductionStartsBeforeTheWeightsGradient) {
  const BufferId whole = product("input gradient", gradient_, weight_, {"tokens", "embed"});
  product("weight gradient", shard_, gradient_, {"embed", "ffn"});
  const BufferId packed = value({"tokens", "embed"});
  push("pack",
       {.work = Copy{.kind = Copy::Kind::pack, .axis = {.axis = "tp"}}, .inputs = {whole}, .outputs = {packed}});
  collective("reduction", CollectiveKind::reduce_scatter, packed, BufferKind::activation);
  EXPECT_THAT(order(), ElementsAre("input gradient", "pack", "reduction", "weight gradient"));
}

TEST_F(EarlyCollectives, PassesNoMoreProductsThanHideIt) {
  for (const char* name : {"first", "second", "third"}) product(name, gradient_, weight_, {"tokens", "embed"});
  all_gather(shard_);
  EXPECT_THAT(order(), ElementsAre("first", "second", "gather", "third"));
}

class EarlyCollectivesOfSmallLayers : public EarlyCollectives {
 protected:
  EarlyCollectivesOfSmallLayers() : EarlyCollectives(64) {}
};

TEST_F(EarlyCollectivesOfSmallLayers, PassesAllProductsOfItsBlock) {
  product("of another block", gradient_, weight_, {"tokens", "embed"}, 0);
  for (const char* name : {"first", "second"}) product(name, gradient_, weight_, {"tokens", "embed"});
  all_gather(shard_);
  EXPECT_THAT(order(), ElementsAre("of another block", "gather", "first", "second"));
}

TEST_F(EarlyCollectives, StaysBehindTheProductThatItSends) {
  const BufferId whole = product("product", gradient_, weight_, {"tokens", "embed"});
  all_gather(whole);
  EXPECT_THAT(order(), ElementsAre("product", "gather"));
}

TEST_F(EarlyCollectives, StaysBehindAProductOfWhatItOverwrites) {
  const BufferId result = value({"tokens", "embed"});
  push("product", sketch_.op("linear", "product", {result, weight_}, value({"tokens", "ffn"})));
  Instruction gather = sketch_.collective(CollectiveKind::all_gather, 1, "tp", shard_, result);
  gather.as<Collective>()->content = BufferKind::activation;
  push("gather", std::move(gather));
  EXPECT_THAT(order(), ElementsAre("product", "gather"));
}

TEST_F(EarlyCollectives, MessagesAndParametersKeepTheirPlaces) {
  product("product", gradient_, weight_, {"tokens", "embed"});
  push("send", sketch_.send(2, "tp", 1, gradient_));
  all_gather(shard_);
  product("another", gradient_, weight_, {"tokens", "embed"});
  all_gather(shard_, BufferKind::parameter);
  EXPECT_THAT(order(), ElementsAre("product", "send", "gather", "another", "gather"));
}

}  // namespace
}  // namespace strata::host::test

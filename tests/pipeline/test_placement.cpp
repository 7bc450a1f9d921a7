#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <utility>

#include "compiler/placement/stages.hpp"
#include "pipeline_strategy.hpp"
#include "strata/error.hpp"
#include "strata/model.hpp"
#include "strata/registration.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing {
namespace {

using host::test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The option that `call` refuses, and why: "size: found 4; accepted: 2".
template <class Call>
std::string refused_option(const Call& call) {
  try {
    call();
  } catch (const OptionError& error) {
    return error.option() + ": " + error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

class PipelinePlacement : public ::testing::Test {
 protected:
  std::string refusal(const std::map<std::string, OptionValue>& options) const {
    return refused_option([&] { (void)plugin_.create(options); });
  }

  PipelinePlugin plugin_;
};

std::vector<BlockCost> blocks_of(const std::vector<double>& costs) {
  std::vector<BlockCost> blocks;
  for (const double cost : costs) blocks.push_back({static_cast<int>(blocks.size()), cost / 4, cost * 3 / 4, 0});
  return blocks;
}

std::vector<BlockCost> equal_blocks(int count) {
  return blocks_of(std::vector<double>(static_cast<std::size_t>(count), 1));
}

std::vector<double> chunk_costs(const Placement& placement, const std::vector<double>& costs) {
  std::vector<double> sums(placement.stage_of_chunk.size());
  for (std::size_t i = 0; i < costs.size(); ++i)
    sums[static_cast<std::size_t>(placement.chunk_of_block[i])] += costs[i];
  return sums;
}

/// Largest part and sum of squares. The split minimises the first, then the second.
std::pair<double, double> imbalance(const std::vector<double>& sums) {
  double squares = 0;
  for (const double sum : sums) squares += sum * sum;
  return {*std::max_element(sums.begin(), sums.end()), squares};
}

/// The least imbalance, found by trying every contiguous split.
std::pair<double, double> least_imbalance(const std::vector<double>& costs, std::size_t parts) {
  std::pair<double, double> best{std::numeric_limits<double>::infinity(), 0};
  std::vector<double> sums;
  const std::function<void(std::size_t)> extend = [&](std::size_t begin) {
    if (sums.size() + 1 == parts) {
      double rest = 0;
      for (std::size_t i = begin; i < costs.size(); ++i) rest += costs[i];
      sums.push_back(rest);
      best = std::min(best, imbalance(sums));
      sums.pop_back();
      return;
    }
    double sum = 0;
    for (std::size_t end = begin + 1; end + (parts - sums.size() - 1) <= costs.size(); ++end) {
      sum += costs[end - 1];
      sums.push_back(sum);
      extend(end);
      sums.pop_back();
    }
  };
  extend(0);
  return best;
}

TEST_F(PipelinePlacement, CostSplitIsTheBestThereIs) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = 1 + random() % 9;
    const std::size_t parts = 1 + random() % count;
    std::vector<double> costs;
    for (std::size_t i = 0; i < count; ++i) costs.push_back(static_cast<double>(random() % 20));
    const auto strategy = plugin_.create({{"size", static_cast<std::int64_t>(parts)}});
    const auto placement = strategy->place(blocks_of(costs));
    ASSERT_TRUE(placement);
    ASSERT_TRUE(std::is_sorted(placement->chunk_of_block.begin(), placement->chunk_of_block.end()));
    for (std::size_t chunk = 0; chunk < parts; ++chunk) {
      EXPECT_GT(std::count(placement->chunk_of_block.begin(), placement->chunk_of_block.end(), chunk), 0);
    }
    EXPECT_EQ(imbalance(chunk_costs(*placement, costs)), least_imbalance(costs, parts)) << "round " << round;
  }
}

/// The first and last blocks of a model count with their cost: the head of a large vocabulary costs as much as several
/// layers.
TEST_F(PipelinePlacement, CostSplitSeesTheHead) {
  BuiltPlugins plugins;
  OpRegistry registry;
  KernelRegistry kernels;
  register_core(registry, kernels);
  const auto& factory = plugins.load<ModelFactory>("gpt2");
  const auto model = factory.create(Options(factory.options(), {{"layers", std::int64_t{6}},
                                                                {"heads", std::int64_t{2}},
                                                                {"embed", std::int64_t{16}},
                                                                {"context", std::int64_t{8}},
                                                                {"vocab", std::int64_t{2048}}}));
  Graph graph;
  graph.sizes = model->sizes();
  graph.sizes["batch"] = 1;
  GraphBuilder builder(graph, registry, GraphMode::training, DType::f32);
  model->build(builder);
  differentiate(graph, registry);
  decompose(graph, registry);
  const std::vector<BlockCost> blocks = host::block_costs(graph, registry);
  ASSERT_EQ(blocks.size(), 8U);
  const auto placement = plugin_.create({{"size", std::int64_t{2}}})->place(blocks);
  EXPECT_THAT(placement->chunk_of_block, ElementsAre(0, 0, 0, 0, 0, 0, 0, 1));
}

TEST_F(PipelinePlacement, EvenAndGivenSplits) {
  const auto sizes = [&](const std::string& split, int blocks) {
    return plugin_.create({{"size", std::int64_t{4}}, {"split", split}})->place(equal_blocks(blocks))->chunk_of_block;
  };
  EXPECT_THAT(sizes("even", 6), ElementsAre(0, 0, 1, 1, 2, 3));
  EXPECT_THAT(sizes("even", 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(sizes("1, 3,1,1", 6), ElementsAre(0, 1, 1, 1, 2, 3));
}

TEST_F(PipelinePlacement, StagesTakeTurnsOrGoDownAndUp) {
  const auto stages = [&](const std::string& schedule, std::int64_t virtual_stages) {
    const auto strategy = plugin_.create(
        {{"size", std::int64_t{3}}, {"schedule", schedule}, {"virtual_stages", virtual_stages}, {"axis", "stages"}});
    EXPECT_EQ(strategy->axes(), (std::vector<MeshAxis>{{"stages", 3}}));
    EXPECT_TRUE(strategy->rules().empty());
    const auto placement = strategy->place(equal_blocks(6));
    EXPECT_EQ(placement->axis, "stages");
    return placement->stage_of_chunk;
  };
  EXPECT_THAT(stages("1f1b", 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(stages("interleaved", 2), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(stages("zbv", 1), ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_THAT(stages("zbv", 2), ElementsAre(0, 1, 2, 2, 1, 0));
}

TEST_F(PipelinePlacement, RefusesMoreChunksThanBlocks) {
  const auto strategy =
      plugin_.create({{"size", std::int64_t{4}}, {"schedule", "interleaved"}, {"virtual_stages", std::int64_t{2}}});
  EXPECT_THAT(
      refused_option([&] { (void)strategy->place(equal_blocks(7)); }),
      AllOf(HasSubstr("size: found 4 stages of 2 chunks"), HasSubstr("at most 7 chunks in all, the number of blocks")));
}

TEST_F(PipelinePlacement, RefusesSplitsThatDoNotFit) {
  for (const char* const split : {"", "3,", "3;4", "costs", "2,-1", "0,4", "2.5,1", "1,99999999999"}) {
    EXPECT_THAT(refusal({{"size", std::int64_t{2}}, {"split", split}}),
                AllOf(HasSubstr("split: found \"" + std::string(split) + "\""), HasSubstr("\"3,4,4,3\"")));
  }
  EXPECT_THAT(refusal({{"size", std::int64_t{2}}, {"split", "1,2,3"}}), HasSubstr("3 chunks; accepted: 2 chunks"));
  const auto strategy = plugin_.create({{"size", std::int64_t{2}}, {"split", "3,4"}});
  EXPECT_THAT(refused_option([&] { (void)strategy->place(equal_blocks(8)); }),
              HasSubstr("split: found 7 blocks in all; accepted: 8"));
}

TEST_F(PipelinePlacement, RefusesChunksThatAScheduleDoesNotHave) {
  EXPECT_THAT(refusal({{"size", std::int64_t{2}}, {"virtual_stages", std::int64_t{2}}}),
              AllOf(HasSubstr("virtual_stages: found 2 with schedule \"1f1b\""), HasSubstr("\"interleaved\"")));
  EXPECT_THAT(refusal({{"size", std::int64_t{2}}, {"schedule", "zbv"}, {"virtual_stages", std::int64_t{3}}}),
              HasSubstr("with schedule \"zbv\", which has 2"));
  EXPECT_THAT(message_of<ConfigurationError>([&] {
                (void)plugin_.create({{"size", std::int64_t{2}}, {"schedule", "1F1B"}});
              }),
              HasSubstr("did you mean \"1f1b\"?"));
}

}  // namespace
}  // namespace strata::testing

/// \file
/// The second model of the kit has what a GPT has not. Otherwise a fault of the engine for such graphs, or a strategy
/// that takes every model for a GPT, would pass all checks.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "build_paths.hpp"
#include "conformance/subject.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {
namespace {

class SecondModel : public ::testing::Test {
 protected:
  [[nodiscard]] int count_of(const std::string& op) const {
    return static_cast<int>(
        std::count_if(graph_.nodes().begin(), graph_.nodes().end(), [&](const Node& node) { return node.op == op; }));
  }
  /// The blocks of a value's readers, in the order of the graph.
  [[nodiscard]] std::vector<int> readers_of(Value value) const {
    std::vector<int> blocks;
    for (const Node& node : graph_.nodes()) {
      if (std::find(node.operands.begin(), node.operands.end(), value) != node.operands.end())
        blocks.push_back(node.block);
    }
    return blocks;
  }
  [[nodiscard]] static int distance(const std::vector<int>& blocks) {
    if (blocks.empty()) return 0;
    const auto [least, most] = std::minmax_element(blocks.begin(), blocks.end());
    return *most - *least;
  }

  PluginRegistry plugins_{{plugin_folder(), build_path("lib/strata/testing")}};
  RunSetup setup_ = prepare(parse_configuration(small_runs().at(1).toml, "second.toml"), plugins_);
  Graph graph_ = forward_graph(setup_.request(GraphMode::training, setup_.sizes_without_data()));
};

TEST_F(SecondModel, ReadsInputsOfDifferentLengths) {
  std::set<std::int64_t> lengths;
  for (const Node& node : graph_.nodes()) {
    if (node.op == "input" && node.results.front().dims.size() == 2)
      lengths.insert(graph_.sizes.at(node.results.front().dims.back()));
  }
  EXPECT_GE(lengths.size(), 2U);
}

TEST_F(SecondModel, HasValuesThatSkipBlocksAndSeveralLaterReaders) {
  int skipping = 0;
  for (const Node& node : graph_.nodes()) {
    if (node.is_leaf()) continue;
    const std::vector<int> blocks = readers_of({node.id, 0});
    const std::set<int> later(blocks.begin(), blocks.end());
    if (later.size() >= 2 && *later.rbegin() > node.block + 1) ++skipping;
  }
  EXPECT_GE(skipping, 3);
}

TEST_F(SecondModel, HasAParameterOfBlocksFarApart) {
  const bool any = std::any_of(graph_.parameters.begin(), graph_.parameters.end(),
                               [&](const Parameter& parameter) { return distance(readers_of(parameter.value)) >= 2; });
  EXPECT_TRUE(any);
}

TEST_F(SecondModel, HasOwnOpsAndSizesThatNoAxisDivides) {
  EXPECT_GE(count_of("folded"), 1);
  const bool any =
      std::any_of(graph_.sizes.begin(), graph_.sizes.end(), [](const auto& size) { return size.second % 2 == 1; });
  EXPECT_TRUE(any);
}

TEST_F(SecondModel, HasSeveralLosses) { EXPECT_GE(count_of("cross_entropy") + count_of("cross_entropy_sum"), 2); }

}  // namespace
}  // namespace strata::host

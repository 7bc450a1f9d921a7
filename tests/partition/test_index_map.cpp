#include <gtest/gtest.h>

#include <set>

#include "strata/error.hpp"
#include "strata/layout.hpp"
#include "strata/program.hpp"

namespace strata::testing {
namespace {

std::vector<std::int64_t> indices(const IndexMap& map) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < map.local_size(); ++i) all.push_back(map.global_index(i));
  return all;
}

TEST(IndexMap, BlockDealsContiguousPieces) {
  EXPECT_EQ(indices(IndexMap::whole(6).piece(3, 1, Distribution::block)), (std::vector<std::int64_t>{2, 3}));
}

TEST(IndexMap, ZigzagPairsEarlyWithLatePieces) {
  EXPECT_EQ(indices(IndexMap::whole(8).piece(2, 0, Distribution::zigzag)), (std::vector<std::int64_t>{0, 1, 6, 7}));
  EXPECT_EQ(indices(IndexMap::whole(8).piece(2, 1, Distribution::zigzag)), (std::vector<std::int64_t>{2, 3, 4, 5}));
}

TEST(IndexMap, PiecesOfAPieceFollowItsLocalOrder) {
  const IndexMap zigzag = IndexMap::whole(8).piece(2, 0, Distribution::zigzag);
  EXPECT_EQ(indices(zigzag.piece(2, 1, Distribution::block)), (std::vector<std::int64_t>{6, 7}));
  EXPECT_EQ(indices(zigzag.piece(2, 0, Distribution::zigzag)), (std::vector<std::int64_t>{0, 7}));
}

TEST(IndexMap, NestedPiecesCoverEveryIndexOnce) {
  for (const Distribution outer : {Distribution::block, Distribution::zigzag}) {
    for (const Distribution inner : {Distribution::block, Distribution::zigzag}) {
      std::multiset<std::int64_t> seen;
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 3; ++j) {
          for (const std::int64_t index : indices(IndexMap::whole(24).piece(2, i, outer).piece(3, j, inner)))
            seen.insert(index);
        }
      }
      EXPECT_EQ(seen.size(), 24U);
      EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 24U);
    }
  }
}

TEST(IndexMap, RefusesWhatItDoesNotHold) {
  const IndexMap map = IndexMap::whole(8).piece(2, 1, Distribution::block);
  EXPECT_THROW(static_cast<void>(map.global_index(-1)), VerificationError);
  EXPECT_THROW(static_cast<void>(map.global_index(4)), VerificationError);
  EXPECT_THROW(static_cast<void>(split_dimension(10, 2, 0, Distribution::zigzag)), VerificationError);
}

TEST(IndexMap, OfAShardedDimAgreesWithTheRules) {
  const Mesh mesh({{"a", 2}, {"b", 2}});
  Rule outer{"seq", "a", 10, Distribution::zigzag, {}};
  Rule inner{"seq", "b", 20, Distribution::block, {}};
  const LayoutRules rules(mesh, {{"seq", 16}}, {outer, inner});
  const ShardedDim dim{"seq", 16, {{"a", Distribution::zigzag}, {"b", Distribution::block}}, false};
  for (int rank = 0; rank < mesh.rank_count(); ++rank) {
    const Coordinates at = mesh.coordinates(rank);
    EXPECT_EQ(index_map(dim, mesh, at), rules.index_map("seq", {"a", "b"}, at));
  }
}

}  // namespace
}  // namespace strata::testing

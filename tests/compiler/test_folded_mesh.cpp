#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "compiler/program/folded_mesh.hpp"

namespace strata::host::test {
namespace {

using ::testing::ElementsAre;

const Mesh kMesh({{"dp", 5}, {"pp", 3}, {"tp", 2}});

std::vector<int> labels(const std::function<int(const Coordinates&)>& of) {
  std::vector<int> of_rank;
  for (int rank = 0; rank < kMesh.rank_count(); ++rank) of_rank.push_back(of(kMesh.coordinates(rank)));
  return of_rank;
}

struct Row {
  const char* what;
  std::function<int(const Coordinates&)> label;
  AxisSet kept;
  std::vector<int> sizes;
};

TEST(FoldedMesh, EndsWhereRanksNoLongerDiffer) {
  const std::vector<Row> rows{
      {"all alike", [](const Coordinates&) { return 0; }, {}, {1, 1, 1}},
      {"stages", [](const Coordinates& at) { return at.at("pp"); }, {}, {1, 3, 1}},
      {"one writer", [](const Coordinates& at) { return at.at("dp") == 0 ? 1 : 0; }, {}, {2, 1, 1}},
      {"one rank apart",
       [](const Coordinates& at) { return at.at("dp") == 2 && at.at("tp") == 1 ? 1 : 0; },
       {},
       {4, 1, 2}},
      {"axes with addresses", [](const Coordinates&) { return 0; }, {"dp"}, {5, 1, 1}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const std::vector<int> of_rank = labels(row.label);
    const Mesh folded = folded_mesh(kMesh, of_rank, row.kept);
    EXPECT_THAT(std::vector<int>({folded.size("dp"), folded.size("pp"), folded.size("tp")}),
                ::testing::ElementsAreArray(row.sizes));
    const std::vector<int> of_folded = folded_labels(folded, kMesh, of_rank);
    for (int rank = 0; rank < kMesh.rank_count(); ++rank) {
      Coordinates at = kMesh.coordinates(rank);
      for (auto& [axis, coordinate] : at) coordinate = std::min(coordinate, folded.size(axis) - 1);
      EXPECT_EQ(of_folded.at(static_cast<std::size_t>(folded.rank(at))), of_rank.at(static_cast<std::size_t>(rank)));
    }
  }
}

TEST(FoldedMesh, FindsRanksByCoordinates) {
  EXPECT_THAT(ranks_at(kMesh, {{"dp", 1}, {"tp", 1}}), ElementsAre(7, 9, 11));
  EXPECT_THAT(ranks_at(kMesh, {{"pp", 2}}), ElementsAre(4, 5, 10, 11, 16, 17, 22, 23, 28, 29));
  EXPECT_EQ(AxisCoordinate(kMesh, "pp")(11), 2);
}

}  // namespace
}  // namespace strata::host::test

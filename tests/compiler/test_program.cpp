#include <gmock/gmock.h>

#include "random_programs.hpp"

namespace strata::host::test {
namespace {

using ::testing::HasSubstr;

TEST(ProgramText, ShowsEverything) {
  const RandomRanks random = make_random_ranks(1);
  const std::string text = to_string(random.stages[1]);
  EXPECT_THAT(text, HasSubstr("program stage 1, mesh pp=3 dp=2 tp=2, micro-batches 3"));
  EXPECT_THAT(text, HasSubstr("weight, view of %0 at 0, persistent"));
  EXPECT_THAT(text, HasSubstr("all_reduce(%1) over dp id 1 -> f32["));
  EXPECT_THAT(text, HasSubstr("receive() from pp=0 id 1000"));
  EXPECT_THAT(text, HasSubstr("report norm <- %"));
  EXPECT_THAT(text, HasSubstr("over dp id 6 -> f32["));
  EXPECT_THAT(text, HasSubstr(", in the last run  # c6"));
}

TEST(BytesSent, CountsARing) {
  TaskSketch test(4);
  const BufferId x = test.loaded("x", 8);
  const BufferId y = test.sketch.buffer("y", 32);
  const auto bytes = [&](CollectiveKind kind, BufferId in, BufferId out) {
    return bytes_sent(test.program, test.sketch.collective(kind, 1, "dp", in, out));
  };
  EXPECT_EQ(bytes(CollectiveKind::all_reduce, x, x), 2 * 0.75 * 32);
  EXPECT_EQ(bytes(CollectiveKind::all_gather, x, y), 0.75 * 128);
  EXPECT_EQ(bytes(CollectiveKind::reduce_scatter, y, x), 0.75 * 128);
  EXPECT_EQ(bytes(CollectiveKind::all_to_all, x, x), 0.75 * 32);
  EXPECT_EQ(bytes_sent(test.program, test.sketch.send(1, "dp", 1, y)), 128);
  EXPECT_EQ(bytes_sent(test.program, test.sketch.receive(1, "dp", 1, y)), 0);
}

TEST(ShardedDim, AxesNestOutermostFirst) {
  const Mesh mesh({{"a", 2}, {"b", 2}});
  const ShardedDim dim{"n", 16, {{"a", Distribution::zigzag}, {"b", Distribution::block}}, false};
  const IndexMap whole = index_map(dim, mesh, mesh.coordinates(1));
  EXPECT_EQ(whole.segments, (std::vector<IndexSegment>{{0, 12, 4}}));
  EXPECT_EQ(index_map(dim, mesh, mesh.coordinates(2)).segments, (std::vector<IndexSegment>{{0, 4, 4}}));
}

}  // namespace
}  // namespace strata::host::test

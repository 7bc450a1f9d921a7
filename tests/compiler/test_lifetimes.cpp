#include <gtest/gtest.h>

#include "lifetime_sketch.hpp"

namespace strata::host::test {
namespace {

TEST(Lifetimes, FromTheFirstUseToTheLast) {
  LifetimeSketch test;
  const BufferId x = test.loaded("x");    // 0
  const BufferId y = test.unary("y", x);  // 1
  const BufferId z = test.unary("z", y);  // 2
  test.program.reports["z"] = z;
  test.unary("w", x);  // 3
  EXPECT_EQ(test.lifetime(x), std::make_pair(0, 3));
  EXPECT_EQ(test.lifetime(y), std::make_pair(1, 2));
  EXPECT_EQ(test.lifetime(z), std::make_pair(2, 3));
  const BufferId view = test.sketch.view("view", y, 0, 64);
  test.unary("v", view);  // 4
  EXPECT_EQ(test.lifetime(y), std::make_pair(1, 4));
}

TEST(Lifetimes, CommunicationKeepsItsBuffersUntilItIsWaitedFor) {
  LifetimeSketch test;
  const BufferId x = test.loaded("x");     // 0
  const BufferId y = test.loaded("y");     // 1
  test.all_reduce(x);                      // 2
  test.all_reduce(y);                      // 3
  test.unary("beside", test.loaded("z"));  // 4, 5
  EXPECT_EQ(test.lifetime(x), std::make_pair(0, 5));
  test.unary("after", test.loaded("w"), {y});  // 6, 7: y was started after x, so both have ended
  EXPECT_EQ(test.lifetime(x), std::make_pair(0, 6));
  EXPECT_EQ(test.lifetime(y), std::make_pair(1, 6));
}

TEST(Lifetimes, MessagesEndByTheirOwnWaitOnly) {
  LifetimeSketch test;
  const BufferId x = test.loaded("x");                // 0
  test.push(test.sketch.send(50, "dp", 1, x));        // 1
  const BufferId y = test.loaded("y");                // 2
  test.all_reduce(y);                                 // 3
  test.unary("z", y, {y});                            // 4
  EXPECT_EQ(test.lifetime(x), std::make_pair(0, 4));  // never waited for: to the end
  test.unary("w", y, {x});                            // 5
  test.unary("v", y);                                 // 6
  EXPECT_EQ(test.lifetime(x), std::make_pair(0, 4));
}

TEST(Lifetimes, TransfersEndByTheirOwnWaitOnly) {
  LifetimeSketch test;
  const BufferId home = test.sketch.flat("home", BufferKind::optimizer, 64, true);
  test.program.buffers.back().place = MemoryPlace::host;
  const BufferId x = test.loaded("x");                // 0
  test.push(test.sketch.transfer(x, home));           // 1
  const BufferId y = test.loaded("y");                // 2
  test.all_reduce(y);                                 // 3
  test.unary("z", y, {y});                            // 4
  EXPECT_EQ(test.lifetime(x), std::make_pair(0, 4));  // never waited for: to the end
  test.unary("w", y, {x});                            // 5
  test.unary("v", y);                                 // 6
  EXPECT_EQ(test.lifetime(x), std::make_pair(0, 4));
}

}  // namespace
}  // namespace strata::host::test

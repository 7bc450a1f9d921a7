#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/heartbeat.hpp"

namespace strata::rendezvous {
namespace {

using namespace std::chrono_literals;
using Change = Pulse::Change;

const Clock::time_point kStart = Clock::time_point() + 1h;
const Heartbeat kHeartbeat{.interval = 2s, .warning = 6s, .patience = 60s, .notice = {}};

TEST(Pulse, BeatsOnceInAnInterval) {
  Pulse pulse(kHeartbeat, kStart);
  EXPECT_FALSE(pulse.beat_is_due(kStart + 1s));
  EXPECT_EQ(pulse.next(), kStart + 2s);
  EXPECT_TRUE(pulse.beat_is_due(kStart + 2s));
  EXPECT_FALSE(pulse.beat_is_due(kStart + 3s));
  EXPECT_TRUE(pulse.beat_is_due(kStart + 4s));
}

/// The changes of `pulse` while time passes without a word from the peer: "6 s silent".
std::vector<std::string> changes(Pulse& pulse, std::chrono::seconds begin, std::chrono::seconds end) {
  std::vector<std::string> all;
  for (std::chrono::seconds time = begin; time <= end; time += 1s) {
    switch (pulse.update(kStart + time)) {
      case Change::none:
        break;
      case Change::silent:
        all.push_back(pulse.silence() + " silent");
        break;
      case Change::answers_again:
        all.push_back(pulse.silence() + " over");
        break;
      case Change::lost:
        all.push_back(pulse.silence() + " lost");
        break;
    }
  }
  return all;
}

TEST(Pulse, NamesASilentPeerLessAndLessOften) {
  Pulse pulse(kHeartbeat, kStart);
  EXPECT_THAT(changes(pulse, 1s, 60s),
              ::testing::ElementsAre("6 s silent", "12 s silent", "24 s silent", "48 s silent", "60 s lost"));
}

TEST(Pulse, ForgivesAPeerThatAnswersAgain) {
  Pulse pulse(kHeartbeat, kStart);
  EXPECT_THAT(changes(pulse, 1s, 40s), ::testing::ElementsAre("6 s silent", "12 s silent", "24 s silent"));
  pulse.heard(kStart + 41s);
  EXPECT_THAT(changes(pulse, 41s, 50s), ::testing::ElementsAre("40 s over", "6 s silent"));
}

TEST(Pulse, DoesNotCountTheTimeInWhichThisProcessWasStopped) {
  Pulse pulse(kHeartbeat, kStart);
  EXPECT_THAT(changes(pulse, 1s, 3s), ::testing::IsEmpty());
  EXPECT_EQ(pulse.update(kStart + 1003s), Change::none);
  EXPECT_THAT(changes(pulse, 1004s, 1006s), ::testing::ElementsAre("6 s silent"));
}

TEST(Heartbeat, IsAtLeastAsPatientAsAMachineMayBeSlow) {
  EXPECT_EQ(Heartbeat::with_patience(300).patience, 300s);
  EXPECT_EQ(Heartbeat::with_patience(0.1).patience, 10s);
}

}  // namespace
}  // namespace strata::rendezvous

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "mutator.hpp"
#include "rendezvous/bytes.hpp"
#include "rendezvous/protocol.hpp"
#include "rendezvous_run.hpp"

namespace strata::rendezvous {
namespace {

using strata::testing::Mutator;

/// Runs `read`, which may throw errors of Strata and no others.
void expect_error_or_success(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
  }
}

class Mutations : public ::testing::Test {
 protected:
  static constexpr int kCount = 2500;

  /// Calls `read` with mutants of `bytes`.
  void mutate(const std::string& bytes, const std::function<void(const std::string&)>& read) {
    for (int i = 0; i < kCount; ++i) {
      const std::string mutant = mutator_.bytes(bytes);
      expect_error_or_success([&] { read(mutant); });
      if (HasFailure()) FAIL() << "mutant " << i << ": " << to_hex(mutant);
    }
  }

  Mutator mutator_{20261123};
  Greeting greeting_{std::string(kChallengeBytes, 'g')};
  Join join_{std::string(kChallengeBytes, 'j'), 1, 2};
};

TEST_F(Mutations, OfGreetings) {
  mutate(encode(greeting_frame(greeting_)), [](std::string bytes) {
    while (const auto frame = decode(bytes, kLongestFrameOfStranger)) {
      EXPECT_EQ(read_greeting(*frame).challenge.size(), kChallengeBytes);
    }
  });
}

TEST_F(Mutations, OfRequestsToJoin) {
  const std::string request = encode(join_frame(join_, greeting_, kSecret));
  mutate(request, [&](const std::string& mutant) {
    std::string bytes = mutant;
    const auto frame = decode(bytes, kLongestFrameOfStranger);
    if (!frame || !read_join(*frame, greeting_, kSecret)) return;
    EXPECT_TRUE(mutant.starts_with(request)) << "a request that the rank did not make";
  });
}

TEST_F(Mutations, OfAuthenticatedFrames) {
  FrameWriter writer(kSecret);
  const std::vector<std::string> contents{"", "one", std::string(100, '2'), ""};
  std::string all;
  for (const std::string& each : contents) all += writer.write({each.empty() ? FrameKind::beat : FrameKind::put, each});
  mutate(all, [&](std::string bytes) {
    FrameReader reader(kSecret);
    for (std::size_t i = 0; const auto frame = reader.read(bytes); ++i) {
      ASSERT_LT(i, contents.size());
      EXPECT_EQ(frame->contents, contents[i]);
    }
  });
}

TEST_F(Mutations, OfMessages) {
  mutate(store_frame(FrameKind::put, {"key", 3, "value"}).contents, [](const std::string& bytes) {
    expect_error_or_success([&] { EXPECT_GE(read_store_frame({FrameKind::put, bytes}).number, 0); });
  });
}

TEST_F(Mutations, DoNotKeepALiveServerFromItsRanks) {
  const auto all = processes(2);
  std::thread first([&] { EXPECT_EQ(error_of([&] { (void)join(all[0], Clock::now() + 120s); }), ""); });
  for (int i = 0; i < 300; ++i) {
    const Descriptor socket = stranger(all[0].port);
    std::string received;
    const auto frame = next_frame(socket, received);
    ASSERT_TRUE(frame);
    const std::string request = encode(join_frame(join_, read_greeting(*frame), kSecret));
    const std::string mutant = mutator_.bytes(request);
    if (mutant.starts_with(request)) continue;
    write(socket, mutant);
  }
  EXPECT_EQ(error_of([&] { (void)join(all[1], Clock::now() + 120s); }), "");
  first.join();
}

TEST_F(Mutations, OfServersEndAClientWithOneMessage) {
  const Listener listener = listen_on("127.0.0.1", 0);
  std::atomic<bool> over = false;
  std::thread server([&] {
    FrameWriter writer(kSecret);
    const std::string answers = encode(greeting_frame(greeting_)) + writer.write({FrameKind::welcome, ""});
    while (!over) {
      const Accepted accepted = accept_from(listener.sockets.front());
      if (accepted.socket.is_open()) write(accepted.socket, mutator_.bytes(answers));
      std::this_thread::sleep_for(1ms);
    }
  });
  for (int i = 0; i < 100; ++i) {
    const std::string error = error_of([&] { (void)join(environment(1, 2, port_of(listener)), Clock::now() + 20ms); });
    EXPECT_THAT(error, ::testing::HasSubstr("rank 1: ")) << i;
  }
  over = true;
  server.join();
}

}  // namespace
}  // namespace strata::rendezvous

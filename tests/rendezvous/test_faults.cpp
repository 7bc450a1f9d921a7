#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <utility>

#include "proxy.hpp"
#include "rendezvous/bytes.hpp"
#include "rendezvous/protocol.hpp"
#include "rendezvous_run.hpp"

namespace strata::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A process that joins as rank 1 of 2 and stays until rank 0 ends. Made before this process has threads.
class RankProcess {
 public:
  explicit RankProcess(std::uint16_t port) : id_(::fork()) {
    if (id_ != 0) return;
    const std::string error = error_of([port] {
      Heartbeat heartbeat;
      heartbeat.interval = 20ms;
      const auto store = join(environment(1, 2, port), Clock::now() + 60s, heartbeat);
      (void)store->take("the end", Clock::now() + 300s);
    });
    ::_exit(error.empty() ? 0 : 1);
  }
  ~RankProcess() {
    send(SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void send(int signal) const { ::kill(id_, signal); }
  /// True if the process ends without an error.
  [[nodiscard]] bool ends_well() const {
    int status = 0;
    return ::waitpid(id_, &status, 0) == id_ && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t id_;
};

TEST(Silence, OfAStoppedProcessIsToldAndForgiven) {
  const std::uint16_t port = free_port();
  const RankProcess other(port);
  Notices notices;
  {
    const auto store = join(environment(0, 2, port), Clock::now() + 60s, notices.heartbeat(1h));
    other.send(SIGSTOP);
    EXPECT_TRUE(notices.await_text("rank 1 (127.0.0.1) has not answered for "));
    other.send(SIGCONT);
    EXPECT_TRUE(notices.await_text("rank 1 (127.0.0.1) answers again after "));
    EXPECT_FALSE(store->failure());
    store->put("the end", "", 1);
  }
  EXPECT_TRUE(other.ends_well());
}

TEST(Silence, OfAStoppedProcessEndsTheRunWhenItsTimeIsOver) {
  const std::uint16_t port = free_port();
  const RankProcess other(port);
  Notices notices;
  const auto store = join(environment(0, 2, port), Clock::now() + 60s, notices.heartbeat(1s));
  other.send(SIGSTOP);
  ASSERT_TRUE(await([&] { return store->failure().has_value(); }));
  EXPECT_EQ(store->failure()->rank, 1);
  EXPECT_EQ(store->failure()->reason, "rank 1 (127.0.0.1) has not answered for 1 s");
  other.send(SIGKILL);
}

/// Two ranks that meet through `proxy`. \return the failures that they have noticed at the end.
std::vector<std::string> failures_through(Proxy& proxy, std::chrono::milliseconds patience,
                                          const std::function<void(Store&)>& after_the_start) {
  const std::uint16_t port = proxy.target();
  std::vector<std::string> failures(2);
  std::atomic<int> noticed = 0;
  Notices notices;
  const auto errors = run(
      {environment(0, 2, port), environment(1, 2, proxy.port())}, 60s,
      [&](Store& store, const ProcessEnvironment& own) {
        (void)Exchange(store, own.rank, 2, 60s).all_gather("x", "");
        if (own.rank == 1) after_the_start(store);
        EXPECT_TRUE(await([&] { return store.failure().has_value(); }));
        failures[static_cast<std::size_t>(own.rank)] = store.failure()->reason;
        // The end of one rank is not what the other notices.
        ++noticed;
        EXPECT_TRUE(await([&] { return noticed == 2; }));
      },
      notices.heartbeat(patience));
  EXPECT_THAT(errors, ::testing::Each(""));
  return failures;
}

TEST(Silence, OfAConnectionThatDropsEverythingIsNoticedAtBothEnds) {
  Proxy proxy(free_port());
  const auto failures = failures_through(proxy, 1s, [&](Store&) {
    proxy.set_filter([](bool /*to_first*/, const std::string& /*bytes*/) { return std::string(); });
  });
  EXPECT_EQ(failures[0], "rank 1 (127.0.0.1) has not answered for 1 s");
  EXPECT_THAT(failures[1], AllOf(StartsWith("rank 0 at '127.0.0.1' port "), HasSubstr("has not answered for 1 s")));
}

TEST(Forgery, ARepeatedFrameEndsTheRun) {
  Proxy proxy(free_port());
  const auto failures = failures_through(proxy, 1h, [&](Store& store) {
    proxy.set_filter([](bool to_first, const std::string& bytes) { return to_first ? bytes + bytes : bytes; });
    store.put("key", "value", 1);
  });
  EXPECT_THAT(failures[0], AllOf(StartsWith("rank 1 (127.0.0.1): "), HasSubstr("altered, repeated or removed")));
}

TEST(Forgery, AnAlteredFrameEndsTheRun) {
  Proxy proxy(free_port());
  const auto failures = failures_through(proxy, 1h, [&](Store&) {
    proxy.set_filter([](bool to_first, std::string bytes) {
      if (!to_first) bytes.back() = static_cast<char>(bytes.back() ^ 1);
      return bytes;
    });
  });
  EXPECT_THAT(failures[1], AllOf(StartsWith("from rank 0 at "), HasSubstr("altered, repeated or removed")));
}

TEST(Connections, NoticeAMachineThatIsGone) {
  const auto option = [](const Descriptor& socket, int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    ::getsockopt(socket.number(), level, name, &value, &size);
    return value;
  };
  const Listener listener = listen_on("127.0.0.1", 0);
  const Descriptor connected = stranger(port_of(listener));
  Accepted accepted;
  ASSERT_TRUE(await([&] { return (accepted = accept_from(listener.sockets.front())).socket.is_open(); }));
  for (const Descriptor* each : {&connected, &std::as_const(accepted.socket)}) {
    EXPECT_EQ(option(*each, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(*each, IPPROTO_TCP, TCP_KEEPIDLE), 5);
    EXPECT_EQ(option(*each, IPPROTO_TCP, TCP_USER_TIMEOUT), 20000);
  }
}

/// Connects and joins as rank 1 of 2 would. The frames that follow are those of `act`.
std::thread rank_that(std::uint16_t port, const std::function<std::string(FrameWriter&)>& act) {
  return std::thread([port, act] {
    const Descriptor socket = stranger(port);
    std::string received;
    const auto greeting = next_frame(socket, received);
    const Join request{random_text(kChallengeBytes), 1, 2};
    write(socket, encode(join_frame(request, read_greeting(*greeting), kSecret)));
    const SessionKeys keys = session_keys(request, read_greeting(*greeting), kSecret);
    FrameReader reader(keys.from_first);
    std::optional<Frame> welcome;
    while (!(welcome = reader.read(received)) && await_socket(socket, false, Clock::now() + 60s)) {
      (void)receive_some(socket, received);
    }
    EXPECT_EQ(welcome->kind, FrameKind::welcome);
    FrameWriter writer(keys.to_first);
    const std::string bytes = act(writer);
    write(socket, bytes);
    if (!bytes.empty()) (void)is_closed_by_peer(socket);
  });
}

std::string error_with(const std::function<std::string(FrameWriter&)>& act) {
  const std::uint16_t port = free_port();
  std::thread other = rank_that(port, act);
  const auto errors = run({environment(0, 2, port)}, 60s, [](Store& store, const ProcessEnvironment& /*own*/) {
    (void)Exchange(store, 0, 2, 60s).all_gather("x", "");
  });
  other.join();
  return errors[0];
}

TEST(Rank, ThatEndsWithoutAWordIsNoticed) {
  EXPECT_THAT(error_with([](FrameWriter&) { return ""; }), HasSubstr("rank 1 (127.0.0.1) has ended without a word"));
}

TEST(Rank, ThatSendsNonsenseIsNamed) {
  const auto sends = [](FrameKind kind, const std::string& contents) {
    return error_with([&](FrameWriter& writer) { return writer.write({kind, contents}); });
  };
  EXPECT_THAT(sends(FrameKind::put, "short"), HasSubstr("rank 1 (127.0.0.1): rendezvous: a message ends after"));
  EXPECT_THAT(sends(FrameKind::take, std::string("\0\0\0\1x\0\0\0\0\0\0\0\0yz", 15)), HasSubstr("2 bytes too many"));
  EXPECT_THAT(sends(FrameKind::welcome, ""), HasSubstr("rank 1 (127.0.0.1): it sent what only rank 0 may send"));
}

}  // namespace
}  // namespace strata::rendezvous

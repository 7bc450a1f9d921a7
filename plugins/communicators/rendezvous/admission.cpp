#include "admission.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "bytes.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

constexpr std::size_t kMostRefusalsTold = 4;
/// The time after which a process without descriptors tries to accept connections again.
constexpr std::chrono::milliseconds kPauseOfAccepting{100};

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

Admission::Admission(Listener listener, int rank_count, std::string secret, const Heartbeat& heartbeat)
    : listener_(std::move(listener)),
      most_strangers_(static_cast<std::size_t>(kMostStrangers + rank_count)),
      secret_(std::move(secret)),
      heartbeat_(heartbeat) {}

void Admission::add_to(std::vector<pollfd>& wanted, Clock::time_point& deadline) const {
  if (paused_until_ == Clock::time_point::min()) {
    for (const Descriptor& socket : listener_.sockets) wanted.push_back({socket.number(), POLLIN, 0});
  } else {
    deadline = std::min(deadline, paused_until_);
  }
  for (const Stranger& stranger : strangers_) {
    const int events = POLLIN | (stranger.to_send.empty() ? 0 : POLLOUT);
    wanted.push_back({stranger.socket.number(), static_cast<short>(events), 0});
    deadline = std::min(deadline, stranger.deadline);
  }
}

std::vector<Newcomer> Admission::work(Clock::time_point now) {
  std::vector<Newcomer> newcomers;
  // First those who are here, so that a crowd of new connections does not take the place of one that has answered.
  for (Stranger& stranger : strangers_) {
    if (now >= stranger.deadline) {
      stranger.closed = true;
    } else {
      talk(stranger, newcomers);
    }
  }
  strangers_.remove_if([](const Stranger& stranger) { return stranger.closed; });
  if (now < paused_until_) return newcomers;
  paused_until_ = Clock::time_point::min();
  for (const Descriptor& socket : listener_.sockets) accept_all(socket, now);
  return newcomers;
}

void Admission::accept_all(const Descriptor& socket, Clock::time_point now) {
  // A limit, so that those who have been accepted get their turn.
  for (std::size_t count = 0; count < most_strangers_; ++count) {
    Accepted accepted = accept_from(socket);
    if (accepted.socket.is_open()) {
      accept(std::move(accepted), now);
    } else if (is_shortage(accepted.error) && !strangers_.empty()) {
      strangers_.pop_front();
    } else if (is_shortage(accepted.error)) {
      return wait_for_descriptors(accepted.error, now);
    } else if (accepted.error == EAGAIN || accepted.error == EWOULDBLOCK) {
      return;
    }
  }
}

void Admission::accept(Accepted accepted, Clock::time_point now) {
  if (strangers_.size() >= most_strangers_) strangers_.pop_front();
  Stranger& stranger = strangers_.emplace_back();
  stranger.socket = std::move(accepted.socket);
  stranger.from = std::move(accepted.from);
  stranger.greeting.challenge = random_text(kChallengeBytes);
  stranger.deadline = now + kTimeToProve;
  stranger.to_send = encode(greeting_frame(stranger.greeting));
  stranger.closed = send_some(stranger.socket, stranger.to_send).has_value();
}

void Admission::wait_for_descriptors(int error, Clock::time_point now) {
  paused_until_ = now + kPauseOfAccepting;
  if (shortage_is_told_) return;
  shortage_is_told_ = true;
  const std::string text = std::string("rank 0 cannot accept connections: ") + std::strerror(error);
  refusals_.push_back(text);
  heartbeat_.tell(text + "; ranks wait until there is room (ulimit -n)");
}

void Admission::talk(Stranger& stranger, std::vector<Newcomer>& newcomers) {
  const auto ending = receive_some(stranger.socket, stranger.received, kHeaderBytes + kLongestFrameOfStranger);
  try {
    const auto frame = decode(stranger.received, kLongestFrameOfStranger);
    if (frame) {
      const std::optional<Join> join = read_join(*frame, stranger.greeting, secret_);
      if (!join) return reject(stranger, "STRATA_SECRET is not the same as rank 0's");
      const SessionKeys keys = session_keys(*join, stranger.greeting, secret_);
      stranger.closed = true;
      newcomers.push_back({std::move(stranger.socket), stranger.from, *join, keys});
      return;
    }
  } catch (const Error& error) {
    return reject(stranger, error.what());
  }
  if (ending || send_some(stranger.socket, stranger.to_send)) stranger.closed = true;
}

void Admission::reject(Stranger& stranger, const std::string& why) {
  if (refusals_.size() < kMostRefusalsTold) refusals_.push_back("refused: " + stranger.from + ": " + why);
  // The few bytes fit into the socket's buffer, unless the peer did not read the greeting.
  stranger.to_send += encode({FrameKind::rejection, why});
  (void)send_some(stranger.socket, stranger.to_send);
  stranger.closed = true;
}

}  // namespace strata::rendezvous

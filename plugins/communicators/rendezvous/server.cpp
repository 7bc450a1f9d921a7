#include "server.hpp"

#include <poll.h>

#include <algorithm>
#include <sstream>

#include "bytes.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

/// Limit for a new peer to identify itself, and for a rank to receive the values that rank 0 has for it.
constexpr std::chrono::seconds kPatience{10};
constexpr std::size_t kMostRefusalsTold = 4;

std::string name(int rank) { return "rank " + std::to_string(rank); }

Frame failure_frame(const Failure& failure) {
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(failure.rank));
  writer.text(failure.reason);
  return {FrameKind::failure, writer.take()};
}

}  // namespace

Server::Server(Board& board, Descriptor listener, int rank_count, std::string secret)
    : board_(board), listener_(std::move(listener)), rank_count_(rank_count), secret_(std::move(secret)) {
  board_.set_listener([this] { wake_up_.wake(); });
  thread_ = std::thread([this] { run(); });
}

Server::~Server() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_up_.wake();
  thread_.join();
  board_.set_listener(nullptr);
}

void Server::await_ranks(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto all_here = [this] { return static_cast<int>(joined_.size()) == rank_count_ - 1; };
  const auto failed = [this] { return board_.failure().has_value(); };
  changed_.wait_until(lock, deadline, [&] { return all_here() || failed(); });
  if (const auto failure = board_.failure()) throw AbortedError(name(0) + ": " + failure->reason);
  if (all_here()) return;
  std::string missing;
  for (int rank = 1; rank < rank_count_; ++rank) {
    if (!joined_.contains(rank)) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  std::string text = name(0) + ": of the other ranks did not come: " + missing;
  for (const std::string& refusal : refusals_) text += "; refused: " + refusal;
  board_.fail(0, text);
  throw RuntimeError(text);
}

void Server::run() {
  while (!is_over()) {
    wait_for_work();
    accept_all();
    for (Connection& connection : connections_) serve(connection);
    hand_out_values();
    spread_failure();
    for (Connection& connection : connections_) {
      if (!connection.closed && !send_some(connection.socket, connection.to_send)) lose(connection);
      if (connection.leaving && connection.to_send.empty()) connection.closed = true;
    }
    connections_.remove_if([](const Connection& connection) { return connection.closed; });
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  say_goodbye();
}

bool Server::is_over() {
  const std::lock_guard lock(mutex_);
  if (!closing_) return false;
  if (last_moment_ == Clock::time_point::max()) last_moment_ = Clock::now() + kPatience;
  const bool alone = std::none_of(connections_.begin(), connections_.end(),
                                  [](const Connection& connection) { return connection.rank >= 0; });
  return alone || board_.is_empty() || board_.failure() || Clock::now() >= last_moment_;
}

void Server::wait_for_work() {
  std::vector<pollfd> wanted{{wake_up_.descriptor(), POLLIN, 0}, {listener_.number(), POLLIN, 0}};
  Clock::time_point deadline = std::min(last_moment_, Clock::now() + std::chrono::hours(1));
  for (const Connection& connection : connections_) {
    const int events = POLLIN | (connection.to_send.empty() ? 0 : POLLOUT);
    wanted.push_back({connection.socket.number(), static_cast<short>(events), 0});
    if (connection.rank < 0) deadline = std::min(deadline, connection.deadline);
  }
  ::poll(wanted.data(), wanted.size(), milliseconds_until(deadline));
  wake_up_.clear();
}

void Server::accept_all() {
  while (true) {
    auto [socket, from] = accept_from(listener_);
    if (!socket.is_open()) return;
    Connection& connection = connections_.emplace_back();
    connection.socket = std::move(socket);
    connection.from = from;
    connection.greeting.challenge = random_text();
    connection.deadline = Clock::now() + kPatience;
    send(connection, greeting_frame(connection.greeting));
  }
}

void Server::serve(Connection& connection) {
  if (connection.closed || connection.leaving) return;
  if (connection.rank < 0 && Clock::now() >= connection.deadline) {
    connection.closed = true;
    return;
  }
  const bool alive = receive_some(connection.socket, connection.received);
  try {
    while (!connection.leaving) {
      const auto frame = decode(connection.received, connection.rank < 0 ? kLongestFrameOfStranger : kLongestFrame);
      if (!frame) break;
      handle(connection, *frame);
    }
  } catch (const Error& error) {
    refuse(connection, error.what());
  }
  if (!alive) lose(connection);
}

void Server::handle(Connection& connection, const Frame& frame) {
  if (connection.rank < 0) return admit(connection, frame);
  ByteReader reader(frame.contents);
  switch (frame.kind) {
    case FrameKind::put: {
      const std::string key = reader.text();
      const auto readers = static_cast<int>(reader.number());
      return board_.put(key, reader.text(), readers);
    }
    case FrameKind::take:
      connection.wanted.push_back(reader.text());
      return;
    case FrameKind::failure:
      return board_.fail(connection.rank, reader.text());
    case FrameKind::end:
      connection.leaving = true;
      return;
    default:
      throw RuntimeError(name(connection.rank) + " sent what only rank 0 may send");
  }
}

void Server::admit(Connection& connection, const Frame& frame) {
  const auto join = read_join(frame, connection.greeting, secret_);
  if (!join) return refuse(connection, "STRATA_SECRET is not the same as rank 0's");
  if (join->rank_count != rank_count_) {
    return refuse(connection, name(join->rank) + " was started with " + std::to_string(join->rank_count) +
                                  " ranks, rank 0 with " + std::to_string(rank_count_));
  }
  if (join->rank < 1 || join->rank >= rank_count_) {
    return refuse(connection, "there is no " + name(join->rank) + " besides rank 0");
  }
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    is_new = joined_.insert(join->rank).second;
  }
  if (!is_new) {
    // Another rank must be missing then, so fail at once instead of waiting for it.
    const std::string why = "two processes were started as " + name(join->rank);
    refuse(connection, why);
    return board_.fail(join->rank, why);
  }
  connection.rank = join->rank;
  send(connection, welcome_frame(*join, connection.greeting, secret_));
  if (failure_is_spread_) send(connection, failure_frame(*board_.failure()));
}

void Server::refuse(Connection& connection, const std::string& why) {
  if (connection.rank >= 0) board_.fail(connection.rank, why);
  send(connection, {FrameKind::refusal, why});
  connection.leaving = true;
  const std::lock_guard lock(mutex_);
  if (refusals_.size() < kMostRefusalsTold) refusals_.push_back(connection.from + ": " + why);
}

void Server::hand_out_values() {
  for (Connection& connection : connections_) {
    std::erase_if(connection.wanted, [&](const std::string& key) {
      const auto value = board_.take(key, Clock::time_point::min());
      if (!value) return false;
      ByteWriter writer;
      writer.text(key);
      writer.text(*value);
      send(connection, {FrameKind::value, writer.take()});
      return true;
    });
  }
}

void Server::spread_failure() {
  const auto failure = board_.failure();
  if (!failure || failure_is_spread_) return;
  failure_is_spread_ = true;
  for (Connection& connection : connections_) {
    if (connection.rank >= 0) send(connection, failure_frame(*failure));
  }
}

void Server::lose(Connection& connection) {
  if (connection.closed) return;
  connection.closed = true;
  if (connection.rank < 0 || connection.leaving) return;
  board_.fail(connection.rank, name(connection.rank) + " (" + connection.from + ") has ended without a word");
}

void Server::send(Connection& connection, const Frame& frame) { connection.to_send += encode(frame); }

void Server::say_goodbye() {
  spread_failure();
  const Clock::time_point deadline = Clock::now() + kLastWords;
  for (Connection& connection : connections_) {
    if (connection.rank >= 0) send(connection, {FrameKind::end, ""});
    while (send_some(connection.socket, connection.to_send) && !connection.to_send.empty() &&
           await_socket(connection.socket, true, deadline)) {
    }
    end_sending(connection.socket);
  }
  // Closing a connection with unread data may discard frames in transit to the peer, so read until the peer closes.
  for (Connection& connection : connections_) {
    while (connection.rank >= 0 && await_socket(connection.socket, false, deadline) &&
           receive_some(connection.socket, connection.received)) {
    }
  }
}

}  // namespace strata::rendezvous

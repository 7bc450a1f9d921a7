#include "client.hpp"

#include <poll.h>

#include <array>

#include "bytes.hpp"
#include "protocol.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

std::string own(const ProcessEnvironment& environment) { return "rank " + std::to_string(environment.rank) + ": "; }

}  // namespace

Client::Client(const ProcessEnvironment& environment, Clock::time_point deadline)
    : rank_(environment.rank), place_("'" + environment.address + "' port " + std::to_string(environment.port)) {
  try {
    socket_ = connect_to(environment.address, environment.port, deadline);
    join(environment, deadline);
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(own(environment) + error.what());
  } catch (const Error& error) {
    throw RuntimeError(own(environment) + error.what());
  }
  thread_ = std::thread([this] {
    run();
    end_sending(socket_);
  });
}

Client::~Client() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    to_send_ += encode({FrameKind::end, ""});
  }
  wake_up_.wake();
  thread_.join();
}

void Client::join(const ProcessEnvironment& environment, Clock::time_point deadline) {
  const auto next = [&] {
    while (true) {
      if (auto frame = decode(received_, kLongestFrameOfStranger)) return *frame;
      if (!await_socket(socket_, false, deadline)) throw RuntimeError("rank 0 at " + place_ + " does not answer");
      if (!receive_some(socket_, received_)) throw RuntimeError("rank 0 at " + place_ + " has closed the connection");
    }
  };
  const Greeting greeting = read_greeting(next());
  const Join join{random_text(), environment.rank, environment.rank_count};
  std::string frame = encode(join_frame(join, greeting, environment.secret));
  if (!send_some(socket_, frame) || !frame.empty()) throw RuntimeError("rank 0 at " + place_ + " cannot be written to");
  const Frame answer = next();
  if (answer.kind == FrameKind::refusal) {
    throw ConfigurationError("refused by rank 0 at " + place_ + ": " + answer.contents);
  }
  if (!is_true_welcome(answer, join, greeting, environment.secret)) {
    throw ConfigurationError("what listens at " + place_ +
                             " does not know STRATA_SECRET: it is not rank 0 of this run");
  }
}

void Client::run() {
  Clock::time_point deadline = Clock::time_point::max();
  while (true) {
    std::string pending;
    {
      const std::lock_guard lock(mutex_);
      // Keep reading a closed connection, because the peer's last frames may still be unread.
      if (!send_some(socket_, to_send_)) to_send_.clear();
      pending = to_send_;
      if (closing_ && deadline == Clock::time_point::max()) deadline = Clock::now() + kLastWords;
      if (closing_ && (pending.empty() || Clock::now() >= deadline)) return;
    }
    const auto events = static_cast<short>(POLLIN | (pending.empty() ? 0 : POLLOUT));
    std::array<pollfd, 2> wanted{{{wake_up_.descriptor(), POLLIN, 0}, {socket_.number(), events, 0}}};
    ::poll(wanted.data(), wanted.size(), deadline == Clock::time_point::max() ? -1 : milliseconds_until(deadline));
    wake_up_.clear();
    const bool alive = receive_some(socket_, received_);
    try {
      handle_received();
    } catch (const Error& error) {
      return lose(error.what());
    }
    if (!alive) return lose("the connection to rank 0 at " + place_ + " is lost");
  }
}

void Client::handle_received() {
  while (const auto frame = decode(received_, kLongestFrame)) {
    ByteReader reader(frame->contents);
    const std::lock_guard lock(mutex_);
    if (frame->kind == FrameKind::value) {
      std::string key = reader.text();
      values_[std::move(key)] = reader.text();
    } else if (frame->kind == FrameKind::failure) {
      const auto rank = static_cast<int>(reader.number());
      if (!failure_) failure_ = Failure{rank, reader.text()};
    } else if (frame->kind == FrameKind::refusal) {
      if (!failure_) failure_ = Failure{rank_, frame->contents};
    } else if (frame->kind == FrameKind::end) {
      ended_ = true;
    }
    changed_.notify_all();
  }
}

void Client::lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!ended_ && !failure_) failure_ = Failure{0, why};
  ended_ = true;
  changed_.notify_all();
}

void Client::send(const std::string& frame) noexcept {
  to_send_ += frame;
  wake_up_.wake();
}

void Client::put(const std::string& key, const std::string& value, int readers) {
  if (readers == 0) return;
  ByteWriter writer;
  writer.text(key);
  writer.number(static_cast<std::uint32_t>(readers));
  writer.text(value);
  const std::lock_guard lock(mutex_);
  send(encode({FrameKind::put, writer.take()}));
}

std::optional<std::string> Client::take(const std::string& key, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (wanted_.insert(key).second) {
    ByteWriter writer;
    writer.text(key);
    send(encode({FrameKind::take, writer.take()}));
  }
  auto found = values_.find(key);
  while (found == values_.end()) {
    if (failure_ || ended_ || Clock::now() >= deadline) return std::nullopt;
    changed_.wait_until(lock, deadline);
    found = values_.find(key);
  }
  std::string value = std::move(found->second);
  values_.erase(found);
  wanted_.erase(key);
  return value;
}

void Client::fail(int rank, const std::string& reason) noexcept {
  ByteWriter writer;
  writer.text(reason);
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = Failure{rank, reason};
  send(encode({FrameKind::failure, writer.take()}));
  changed_.notify_all();
}

std::optional<Failure> Client::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace strata::rendezvous

#include "client.hpp"

#include <poll.h>

#include <algorithm>
#include <array>

#include "bytes.hpp"
#include "protocol.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

/// Between two attempts to join.
constexpr std::chrono::milliseconds kPauseOfJoining{100};
/// The hint if what listens on the port does not behave like rank 0.
constexpr const char* kOtherProgram =
    "another program may hold the port: set MASTER_PORT, or STRATA_PORT where MASTER_PORT is another program's, to a "
    "free one on all ranks";

std::string own(const ProcessEnvironment& environment) {
  return process_name(environment.rank, environment.ranks_per_process) + ": ";
}

}  // namespace

Client::Client(const ProcessEnvironment& environment, Clock::time_point deadline, const Heartbeat& heartbeat)
    : rank_(environment.rank * environment.ranks_per_process),
      place_("'" + environment.address + "' port " + std::to_string(environment.port)),
      heartbeat_(heartbeat),
      reader_(""),
      writer_(""),
      pulse_(heartbeat, Clock::now()) {
  try {
    Waiting waiting(heartbeat);
    while (!join(environment, deadline, waiting)) {
      if (Clock::now() + kPauseOfJoining >= deadline) {
        throw RuntimeError("rank 0 at " + place_ + " has closed the connection");
      }
      std::this_thread::sleep_for(kPauseOfJoining);
    }
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
    to_send_ += writer_.write({FrameKind::end, ""});
  }
  wake_up_.wake();
  thread_.join();
}

bool Client::join(const ProcessEnvironment& environment, Clock::time_point deadline, Waiting& waiting) {
  socket_ = connect_to(environment.address, environment.port, deadline, waiting);
  received_.clear();
  const auto first = await_frame([this] { return read_greeting_frame(); }, deadline, waiting);
  if (!first) return false;
  const Greeting greeting = read_greeting(*first);
  const Join join{random_text(kChallengeBytes), environment.rank, environment.rank_count};
  std::string request = encode(join_frame(join, greeting, environment.secret));
  if (send_some(socket_, request) || !request.empty()) return false;
  const SessionKeys keys = session_keys(join, greeting, environment.secret);
  reader_ = FrameReader(keys.from_first);
  writer_ = FrameWriter(keys.to_first);
  const auto answer = await_frame([this] { return read_answer(); }, deadline, waiting);
  if (!answer) return false;
  if (answer->kind == FrameKind::rejection) {
    throw ConfigurationError("refused by what listens at " + place_ + ": " + printable(answer->contents));
  }
  if (answer->kind == FrameKind::refusal) {
    throw ConfigurationError("refused by rank 0 at " + place_ + ": " + answer->contents);
  }
  if (answer->kind != FrameKind::welcome) throw RuntimeError("rank 0 at " + place_ + " answers with something else");
  pulse_ = Pulse(heartbeat_, Clock::now());
  return true;
}

std::optional<Frame> Client::await_frame(const std::function<std::optional<Frame>()>& read, Clock::time_point deadline,
                                         Waiting& waiting) {
  const std::string silent = "what listens at " + place_ + " says nothing; " + kOtherProgram;
  while (true) {
    if (auto frame = read()) return frame;
    const bool is_readable = waiting.await(socket_, false, deadline, [&] { return "an answer: " + silent; });
    if (!is_readable) throw RuntimeError(silent);
    if (receive_some(socket_, received_)) return std::nullopt;
  }
}

std::optional<Frame> Client::read_greeting_frame() {
  try {
    return decode(received_, kLongestFrameOfStranger);
  } catch (const Error&) {
    throw ConfigurationError("what listens at " + place_ + " is not rank 0 of a run; " + kOtherProgram);
  }
}

std::optional<Frame> Client::read_answer() {
  // A rejection has no tag, because the two sides have no secret in common.
  const bool rejects =
      received_.size() >= kHeaderBytes && received_[kHeaderBytes - 1] == static_cast<char>(FrameKind::rejection);
  if (rejects) return decode(received_, kLongestFrameOfStranger);
  try {
    return reader_.read(received_);
  } catch (const Error&) {
    throw ConfigurationError("what listens at " + place_ +
                             " does not know STRATA_SECRET: it is not rank 0 of this run");
  }
}

void Client::run() {
  while (true) {
    const bool pending = flush();
    if (is_over(pending)) return;
    wait_for_work(pending);
    const std::size_t before = received_.size();
    const auto ending = receive_some(socket_, received_);
    if (received_.size() > before) pulse_.heard(Clock::now());
    try {
      handle_received();
    } catch (const Error& error) {
      return lose("from rank 0 at " + place_ + ": " + error.what());
    }
    if (ending) return lose("the connection to rank 0 at " + place_ + " is lost: " + ending->text());
    listen_for_silence();
  }
}

bool Client::flush() {
  const std::lock_guard lock(mutex_);
  // Bytes that wait already are as good as a beat.
  if (pulse_.beat_is_due(Clock::now()) && to_send_.empty() && !closing_) {
    to_send_ += writer_.write({FrameKind::beat, ""});
  }
  // Keep reading a closed connection, because the peer's last frames may still be unread.
  if (send_some(socket_, to_send_)) to_send_.clear();
  return !to_send_.empty();
}

bool Client::is_over(bool pending) {
  const std::lock_guard lock(mutex_);
  if (!closing_) return false;
  if (last_moment_ == Clock::time_point::max()) last_moment_ = Clock::now() + kLastWords;
  return !pending || Clock::now() >= last_moment_;
}

void Client::wait_for_work(bool pending) const {
  const auto events = static_cast<short>(POLLIN | (pending ? POLLOUT : 0));
  std::array<pollfd, 2> wanted{{{wake_up_.descriptor(), POLLIN, 0}, {socket_.number(), events, 0}}};
  ::poll(wanted.data(), wanted.size(), milliseconds_until(std::min(last_moment_, pulse_.next())));
  wake_up_.clear();
}

void Client::handle_received() {
  while (const auto frame = reader_.read(received_)) handle(*frame);
}

void Client::handle(const Frame& frame) {
  if (frame.kind == FrameKind::notice) return heartbeat_.tell(frame.contents);
  const std::lock_guard lock(mutex_);
  switch (frame.kind) {
    case FrameKind::value: {
      StoreMessage value = read_store_frame(frame);
      wanted_[value.key].values.push_back(std::move(value.text));
      break;
    }
    case FrameKind::failure: {
      const StoreMessage failure = read_store_frame(frame);
      if (!failure_) failure_ = Failure{failure.number, failure.text};
      break;
    }
    case FrameKind::refusal:
      if (!failure_) failure_ = Failure{rank_, frame.contents};
      break;
    case FrameKind::end:
      ended_ = true;
      break;
    case FrameKind::beat:
      return;
    default:
      throw RuntimeError("rendezvous: found a frame that only other ranks send");
  }
  changed_.notify_all();
}

void Client::listen_for_silence() {
  const Pulse::Change change = pulse_.update(Clock::now());
  if (change == Pulse::Change::none) return;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || failure_ || closing_) return;
  }
  const std::string peer = "rank 0 at " + place_;
  if (change != Pulse::Change::lost) return heartbeat_.tell(warning_of(change, pulse_, peer));
  const std::lock_guard lock(mutex_);
  failure_ = Failure{0, peer + " has not answered for " + pulse_.silence()};
  changed_.notify_all();
}

void Client::lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!ended_ && !failure_) failure_ = Failure{0, why};
  ended_ = true;
  to_send_.clear();
  changed_.notify_all();
}

void Client::send(const Frame& frame) {
  if (ended_) return;
  to_send_ += writer_.write(frame);
  wake_up_.wake();
}

void Client::put(const std::string& key, const std::string& value, int readers) {
  if (readers == 0) return;
  require_storable(key, value);
  const std::lock_guard lock(mutex_);
  send(store_frame(FrameKind::put, {key, readers, value}));
}

std::optional<std::string> Client::take(const std::string& key, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  Wanted& wanted = wanted_[key];
  // Every value that was asked for arrives once. One that came too late for its reader serves the next one.
  if (++wanted.readers > wanted.asked) {
    ++wanted.asked;
    send(store_frame(FrameKind::take, {.key = key}));
  }
  while (wanted.values.empty() && !failure_ && !ended_ && Clock::now() < deadline) changed_.wait_until(lock, deadline);
  --wanted.readers;
  if (wanted.values.empty()) return std::nullopt;
  std::string value = std::move(wanted.values.front());
  wanted.values.pop_front();
  if (--wanted.asked == 0) wanted_.erase(key);
  return value;
}

void Client::fail(int rank, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = Failure{rank, reason};
  send(failure_frame(*failure_));
  changed_.notify_all();
}

std::optional<Failure> Client::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace strata::rendezvous

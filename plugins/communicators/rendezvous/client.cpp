#include "client.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "bytes.hpp"
#include "protocol.hpp"
#include "socket.hpp"
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

/// The store of every rank except 0: accesses the board of rank 0 over a connection.
class Client final : public Store {
 public:
  Client(const ProcessEnvironment& environment, Clock::time_point deadline, const Heartbeat& heartbeat)
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
  /// Tells rank 0 that this rank ends normally.
  ~Client() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      to_send_ += writer_.write({FrameKind::end, ""});
    }
    wake_up_.wake();
    thread_.join();
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void put(const std::string& key, const std::string& value, int readers) override {
    if (readers == 0) return;
    require_storable(key, value);
    const std::lock_guard lock(mutex_);
    send(store_frame(FrameKind::put, {key, readers, value}));
  }
  [[nodiscard]] std::optional<std::string> take(const std::string& key, Clock::time_point deadline) override {
    std::unique_lock lock(mutex_);
    Wanted& wanted = wanted_[key];
    // Every value that was asked for arrives once. One that came too late for its reader serves the next one.
    if (++wanted.readers > wanted.asked) {
      ++wanted.asked;
      send(store_frame(FrameKind::take, {.key = key}));
    }
    while (wanted.values.empty() && !failure_ && !ended_ && Clock::now() < deadline) {
      changed_.wait_until(lock, deadline);
    }
    --wanted.readers;
    if (wanted.values.empty()) return std::nullopt;
    std::string value = std::move(wanted.values.front());
    wanted.values.pop_front();
    if (--wanted.asked == 0) wanted_.erase(key);
    return value;
  }
  void fail(int rank, const std::string& reason) noexcept override {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = Failure{rank, reason};
    send(failure_frame(*failure_));
    changed_.notify_all();
  }
  [[nodiscard]] std::optional<Failure> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  /// A key that threads of this process take, each once.
  struct Wanted {
    /// Threads that wait.
    int readers = 0;
    /// Values that were asked for and not taken.
    int asked = 0;
    std::deque<std::string> values = {};
  };

  /// One attempt to join. \return false if the connection ended before rank 0 answered.
  [[nodiscard]] bool join(const ProcessEnvironment& environment, Clock::time_point deadline, Waiting& waiting) {
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
  /// The first frame of the peer that `read` finds. Empty if the connection ends before.
  [[nodiscard]] std::optional<Frame> await_frame(const std::function<std::optional<Frame>()>& read,
                                                 Clock::time_point deadline, Waiting& waiting) {
    const std::string silent = "what listens at " + place_ + " says nothing; " + kOtherProgram;
    while (true) {
      if (auto frame = read()) return frame;
      const bool is_readable = waiting.await(socket_, false, deadline, [&] { return "an answer: " + silent; });
      if (!is_readable) throw RuntimeError(silent);
      if (receive_some(socket_, received_)) return std::nullopt;
    }
  }
  /// The greeting of what listens, which may be another program.
  [[nodiscard]] std::optional<Frame> read_greeting_frame() {
    try {
      return decode(received_, kLongestFrameOfStranger);
    } catch (const Error&) {
      throw ConfigurationError("what listens at " + place_ + " is not rank 0 of a run; " + kOtherProgram);
    }
  }
  /// Rank 0's answer to the request to join.
  [[nodiscard]] std::optional<Frame> read_answer() {
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
  void run() {
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
  void send(const Frame& frame) {
    if (ended_) return;
    to_send_ += writer_.write(frame);
    wake_up_.wake();
  }
  /// Sends what is pending, with a heartbeat if it is due. \return true if more is pending.
  [[nodiscard]] bool flush() {
    const std::lock_guard lock(mutex_);
    // Bytes that wait already are as good as a beat.
    if (pulse_.beat_is_due(Clock::now()) && to_send_.empty() && !closing_) {
      to_send_ += writer_.write({FrameKind::beat, ""});
    }
    // Keep reading a closed connection, because the peer's last frames may still be unread.
    if (send_some(socket_, to_send_)) to_send_.clear();
    return !to_send_.empty();
  }
  /// True if this side is closing and has sent everything, or has tried for long enough.
  [[nodiscard]] bool is_over(bool pending) {
    const std::lock_guard lock(mutex_);
    if (!closing_) return false;
    if (last_moment_ == Clock::time_point::max()) last_moment_ = Clock::now() + kLastWords;
    return !pending || Clock::now() >= last_moment_;
  }
  void wait_for_work(bool pending) const {
    const auto events = static_cast<short>(POLLIN | (pending ? POLLOUT : 0));
    std::array<pollfd, 2> wanted{{{wake_up_.descriptor(), POLLIN, 0}, {socket_.number(), events, 0}}};
    ::poll(wanted.data(), wanted.size(), milliseconds_until(std::min(last_moment_, pulse_.next())));
    wake_up_.clear();
  }
  void handle_received() {
    while (const auto frame = reader_.read(received_)) handle(*frame);
  }
  void handle(const Frame& frame) {
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
  void listen_for_silence() {
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
  void lose(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!ended_ && !failure_) failure_ = Failure{0, why};
    ended_ = true;
    to_send_.clear();
    changed_.notify_all();
  }

  int rank_;
  std::string place_;
  Heartbeat heartbeat_;
  Descriptor socket_;
  std::string received_;
  FrameReader reader_;
  FrameWriter writer_;
  Pulse pulse_;
  /// When this side ends at the latest, once it is closing.
  Clock::time_point last_moment_ = Clock::time_point::max();
  WakeUp wake_up_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string to_send_;
  std::map<std::string, Wanted> wanted_;
  std::optional<Failure> failure_;
  bool ended_ = false;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace

std::unique_ptr<Store> join_board(const ProcessEnvironment& environment, Clock::time_point deadline,
                                  const Heartbeat& heartbeat) {
  return std::make_unique<Client>(environment, deadline, heartbeat);
}

}  // namespace strata::rendezvous

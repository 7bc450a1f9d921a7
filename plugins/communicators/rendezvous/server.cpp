#include "server.hpp"

#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "admission.hpp"
#include "protocol.hpp"
#include "socket.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

/// Limit for a rank to receive the values that rank 0 has for it.
constexpr std::chrono::seconds kPatience{10};

/// Rank 0's server, through which other ranks access its board. It accepts connections until every rank has joined, and
/// nobody after that. If a process disconnects without an end frame, or is silent for too long, the run fails.
class Server {
 public:
  Server(Board& board, Listener listener, const ProcessEnvironment& environment, const Heartbeat& heartbeat)
      : board_(board),
        rank_count_(environment.rank_count),
        ranks_per_process_(environment.ranks_per_process),
        place_("'" + environment.address + "' port " + std::to_string(environment.port)),
        heartbeat_(heartbeat),
        waiting_(heartbeat),
        admission_(std::make_unique<Admission>(std::move(listener), rank_count_, environment.secret, heartbeat)) {
    board_.set_listener([this] { wake_up_.wake(); });
    thread_ = std::thread([this] { run(); });
  }
  /// Delivers the remaining values and tells the other ranks that rank 0 ends.
  ~Server() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    wake_up_.wake();
    thread_.join();
    board_.set_listener(nullptr);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns when every rank has joined. \throws RuntimeError that names the ranks that did not join until `deadline`,
  /// or says why the run has failed.
  void await_ranks(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    const auto all_here = [this] { return static_cast<int>(joined_.size()) == rank_count_ - 1; };
    const auto failed = [this] { return board_.failure().has_value(); };
    changed_.wait_until(lock, deadline, [&] { return all_here() || failed(); });
    if (const auto failure = board_.failure()) throw AbortedError(name(0) + ": " + failure->reason);
    if (all_here()) return;
    const std::string text = name(0) + ": waited in vain for " + describe_missing();
    board_.fail(0, text);
    throw RuntimeError(text);
  }

 private:
  /// A connection to a rank.
  struct Connection {
    Descriptor socket;
    std::string from;
    int rank;
    FrameReader reader;
    FrameWriter writer;
    Pulse pulse;
    std::string received = {};
    std::string to_send = {};
    /// Keys for which the rank waits.
    std::vector<std::string> wanted = {};
    /// True if the rank ends normally or was refused. Nothing more is read from it.
    bool leaving = false;
    bool closed = false;
  };

  /// The process of this number in words.
  [[nodiscard]] std::string name(int process) const { return process_name(process, ranks_per_process_); }
  /// The world's rank to which a process attributes a failure: the one that it names, if that is one of its own.
  [[nodiscard]] int blamed_rank(const Connection& connection, int named = -1) const {
    const int first = connection.rank * ranks_per_process_;
    return named >= first && named < first + ranks_per_process_ ? named : first;
  }
  /// Whom rank 0 waits for, and what may keep them away. The mutex is held.
  [[nodiscard]] std::string describe_missing() const {
    std::vector<int> missing;
    for (int rank = 1; rank < rank_count_; ++rank) {
      if (joined_.contains(rank)) continue;
      for (int local = 0; local < ranks_per_process_; ++local) missing.push_back(rank * ranks_per_process_ + local);
    }
    std::string text = ranks_text(missing) + " to join rank 0 at " + place_;
    for (const std::string& refusal : admission_->refusals()) text += "; " + refusal;
    if (!admission_->listener().caveat.empty()) text += "; " + admission_->listener().caveat;
    return text;
  }
  void run() {
    while (!is_over()) {
      wait_for_work();
      admit_newcomers();
      for (Connection& connection : connections_) serve(connection);
      hand_out_values();
      spread_failure();
      end_admission();
      tell_who_is_missing();
      for (Connection& connection : connections_) {
        keep_in_touch(connection);
        flush(connection);
      }
      connections_.remove_if([](const Connection& connection) { return connection.closed; });
    }
    say_goodbye();
  }
  [[nodiscard]] bool is_over() {
    const std::lock_guard lock(mutex_);
    if (!closing_) return false;
    if (last_moment_ == Clock::time_point::max()) last_moment_ = Clock::now() + kPatience;
    return connections_.empty() || board_.is_empty() || board_.failure() || Clock::now() >= last_moment_;
  }
  void wait_for_work() {
    std::vector<pollfd> wanted{{wake_up_.descriptor(), POLLIN, 0}};
    Clock::time_point deadline = std::min(last_moment_, Clock::now() + std::chrono::hours(1));
    for (const Connection& connection : connections_) {
      const int events = POLLIN | (connection.to_send.empty() ? 0 : POLLOUT);
      wanted.push_back({connection.socket.number(), static_cast<short>(events), 0});
      deadline = std::min(deadline, connection.pulse.next());
    }
    if (admission_) {
      admission_->add_to(wanted, deadline);
      if (!board_.failure()) deadline = std::min(deadline, waiting_.next());
    }
    ::poll(wanted.data(), wanted.size(), milliseconds_until(deadline));
    wake_up_.clear();
  }
  void admit_newcomers() {
    if (!admission_) return;
    std::vector<Newcomer> newcomers;
    {
      // Another thread may be reading the refusals.
      const std::lock_guard lock(mutex_);
      newcomers = admission_->work(Clock::now());
    }
    for (Newcomer& newcomer : newcomers) admit(std::move(newcomer));
  }
  void admit(Newcomer newcomer) {
    const Join join = newcomer.join;
    Connection& connection = connections_.emplace_back(
        Connection{std::move(newcomer.socket), newcomer.from, join.rank, FrameReader(newcomer.keys.to_first),
                   FrameWriter(newcomer.keys.from_first), Pulse(heartbeat_, Clock::now())});
    if (const std::string fault = find_fault(join); !fault.empty()) {
      // It has proved that it belongs to the run, which cannot start with it or without it.
      send(connection, {FrameKind::refusal, fault});
      connection.leaving = true;
      return board_.fail(join.rank * ranks_per_process_, fault);
    }
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      is_new = joined_.insert(join.rank).second;
    }
    if (!is_new) {
      // Another rank must be missing then, so fail at once instead of waiting for it.
      const std::string why = "two processes were started as " + name(join.rank);
      send(connection, {FrameKind::refusal, why});
      connection.leaving = true;
      return board_.fail(join.rank * ranks_per_process_, why);
    }
    send(connection, {FrameKind::welcome, ""});
    if (failure_is_spread_) send(connection, failure_frame(*board_.failure()));
  }
  /// Why a process cannot be the rank that it says it is, or empty.
  [[nodiscard]] std::string find_fault(const Join& join) const {
    if (join.rank_count != rank_count_) {
      return name(join.rank) + " was started with " + std::to_string(join.rank_count) + " ranks, rank 0 with " +
             std::to_string(rank_count_);
    }
    if (join.rank < 1 || join.rank >= rank_count_) return "there is no " + name(join.rank) + " besides rank 0";
    return "";
  }
  /// Tells all ranks that are here who is not, when that has lasted for some time.
  void tell_who_is_missing() {
    if (!admission_ || board_.failure()) return;
    const auto text = waiting_.tell([this] {
      const std::lock_guard lock(mutex_);
      return describe_missing();
    });
    if (!text) return;
    for (Connection& connection : connections_) {
      if (!connection.leaving) send(connection, {FrameKind::notice, *text});
    }
  }
  /// Accepts nobody once all ranks have joined.
  void end_admission() {
    const std::lock_guard lock(mutex_);
    // A process that comes later is refused by the system. It may be one of the next run and find that run's rank 0.
    if (static_cast<int>(joined_.size()) == rank_count_ - 1) admission_ = nullptr;
    changed_.notify_all();
  }
  void serve(Connection& connection) {
    if (connection.closed || connection.leaving) return;
    const std::size_t before = connection.received.size();
    const auto ending = receive_some(connection.socket, connection.received);
    if (connection.received.size() > before) connection.pulse.heard(Clock::now());
    try {
      while (!connection.leaving) {
        const auto frame = connection.reader.read(connection.received);
        if (!frame) break;
        handle(connection, *frame);
      }
    } catch (const Error& error) {
      refuse(connection, name(connection.rank) + " (" + connection.from + "): " + error.what());
    }
    if (ending) lose(connection, *ending);
  }
  void handle(Connection& connection, const Frame& frame) {
    switch (frame.kind) {
      case FrameKind::put: {
        const StoreMessage put = read_store_frame(frame);
        return board_.put(put.key, put.text, put.number);
      }
      case FrameKind::take:
        connection.wanted.push_back(read_store_frame(frame).key);
        return;
      case FrameKind::failure: {
        const StoreMessage failure = read_store_frame(frame);
        return board_.fail(blamed_rank(connection, failure.number), failure.text);
      }
      case FrameKind::beat:
        return;
      case FrameKind::end:
        connection.leaving = true;
        return;
      default:
        throw RuntimeError("it sent what only rank 0 may send");
    }
  }
  void refuse(Connection& connection, const std::string& why) {
    board_.fail(blamed_rank(connection), why);
    send(connection, {FrameKind::refusal, why});
    connection.leaving = true;
  }
  void hand_out_values() {
    for (Connection& connection : connections_) {
      std::erase_if(connection.wanted, [&](const std::string& key) {
        const auto value = board_.take(key, Clock::time_point::min());
        if (value) send(connection, store_frame(FrameKind::value, {.key = key, .text = *value}));
        return value.has_value();
      });
    }
  }
  void spread_failure() {
    const auto failure = board_.failure();
    if (!failure || failure_is_spread_) return;
    failure_is_spread_ = true;
    for (Connection& connection : connections_) {
      if (!connection.leaving) send(connection, failure_frame(*failure));
    }
  }
  void keep_in_touch(Connection& connection) {
    if (connection.closed || connection.leaving) return;
    const Clock::time_point now = Clock::now();
    // Bytes that wait already are as good as a beat.
    if (connection.pulse.beat_is_due(now) && connection.to_send.empty()) send(connection, {FrameKind::beat, ""});
    const Pulse::Change change = connection.pulse.update(now);
    if (change == Pulse::Change::none || board_.failure()) return;
    const std::string peer = name(connection.rank) + " (" + connection.from + ")";
    if (change == Pulse::Change::lost) {
      return board_.fail(blamed_rank(connection), peer + " has not answered for " + connection.pulse.silence());
    }
    heartbeat_.tell(warning_of(change, connection.pulse, peer));
  }
  void flush(Connection& connection) {
    if (connection.closed) return;
    if (const auto ending = send_some(connection.socket, connection.to_send)) {
      connection.to_send.clear();
      // The last frames of a process that has ended may still be unread. Receiving reports the end after them.
      if (!ending->by_process()) lose(connection, *ending);
    }
    if (connection.leaving && connection.to_send.empty()) connection.closed = true;
  }
  void lose(Connection& connection, const Ending& ending) {
    if (connection.closed) return;
    connection.closed = true;
    if (connection.leaving) return;
    const std::string peer = name(connection.rank) + " (" + connection.from + ")";
    board_.fail(blamed_rank(connection), ending.by_process() ? peer + " has ended without a word"
                                                             : peer + " cannot be reached: " + ending.text() +
                                                                   "; its machine or network is down");
  }
  static void send(Connection& connection, const Frame& frame) { connection.to_send += connection.writer.write(frame); }
  void say_goodbye() {
    spread_failure();
    const Clock::time_point deadline = Clock::now() + kLastWords;
    for (Connection& connection : connections_) {
      if (!connection.leaving) send(connection, {FrameKind::end, ""});
      while (!send_some(connection.socket, connection.to_send) && !connection.to_send.empty() &&
             await_socket(connection.socket, true, deadline)) {
      }
      end_sending(connection.socket);
    }
    // Closing a connection with unread data may discard frames in transit to the peer, so read until the peer closes.
    for (Connection& connection : connections_) {
      while (!connection.leaving && await_socket(connection.socket, false, deadline) &&
             !receive_some(connection.socket, connection.received)) {
      }
    }
  }

  Board& board_;
  int rank_count_;
  int ranks_per_process_;
  /// Where rank 0 listens, in words.
  std::string place_;
  Heartbeat heartbeat_;
  Waiting waiting_;
  WakeUp wake_up_;
  std::list<Connection> connections_;
  bool failure_is_spread_ = false;
  /// The time at which rank 0 ends at the latest, once it is closing.
  Clock::time_point last_moment_ = Clock::time_point::max();

  std::mutex mutex_;
  std::condition_variable changed_;
  /// Null once all ranks have joined.
  std::unique_ptr<Admission> admission_;
  std::set<int> joined_;
  bool closing_ = false;

  std::thread thread_;
};

/// The store of rank 0: its board, and the server through which other ranks access the board.
class ServedBoard final : public Store {
 public:
  ServedBoard(const ProcessEnvironment& environment, Clock::time_point deadline, const Heartbeat& heartbeat)
      : server_(board_, listen_on(environment.address, environment.port), environment, heartbeat) {
    server_.await_ranks(deadline);
  }

  void put(const std::string& key, const std::string& value, int readers) override {
    require_storable(key, value);
    board_.put(key, value, readers);
  }
  [[nodiscard]] std::optional<std::string> take(const std::string& key, Clock::time_point deadline) override {
    return board_.take(key, deadline);
  }
  void fail(int rank, const std::string& reason) noexcept override { board_.fail(rank, reason); }
  [[nodiscard]] std::optional<Failure> failure() const override { return board_.failure(); }

 private:
  Board board_;
  Server server_;
};

}  // namespace

std::unique_ptr<Store> serve_board(const ProcessEnvironment& environment, Clock::time_point deadline,
                                   const Heartbeat& heartbeat) {
  return std::make_unique<ServedBoard>(environment, deadline, heartbeat);
}

}  // namespace strata::rendezvous

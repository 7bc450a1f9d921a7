/// my_plugin: a communicator for ranks that are threads of one process. The rank that arrives last does the work of a
/// collective for all its members. Messages are copied into a mailbox.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "strata/communicator.hpp"
#include "strata/error.hpp"

namespace {

using strata::CollectiveCall;
using strata::CollectiveKind;
using strata::MessageCall;

std::string message_of(int rank, const std::string& what, const std::string* name, const std::string& fault) {
  return "rank " + std::to_string(rank) + ": " + what + " '" + (name == nullptr ? "" : *name) + "': " + fault;
}

std::byte* at(const void* data, std::int64_t bytes) {
  return static_cast<std::byte*>(const_cast<void*>(data)) + bytes;  // NOLINT: callers write outputs only
}

/// One collective: its members and the calls that have arrived, in group order.
struct Meeting {
  std::vector<int> ranks;
  std::vector<std::optional<CollectiveCall>> calls = {};
  bool is_done = false;
  std::string fault = {};

  [[nodiscard]] bool is_complete() const {
    return std::all_of(calls.begin(), calls.end(), [](const auto& call) { return call.has_value(); });
  }
  [[nodiscard]] const CollectiveCall& call_of(int rank) const {
    return *calls[static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin())];
  }
};

/// Does the work of a complete collective for all its members.
void run(const Meeting& meeting, strata::Device& device) {
  const std::vector<std::optional<CollectiveCall>>& calls = meeting.calls;
  const CollectiveCall& first = *calls.front();
  const auto size = static_cast<std::int64_t>(calls.size());
  const auto width = static_cast<std::int64_t>(strata::size_of(first.dtype));
  const auto copy = [](void* destination, const void* source, std::int64_t bytes) {
    if (bytes > 0 && destination != source) std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  };
  // Sums run in group order, so that every rank gets the same bits.
  const auto reduce = [&](void* destination, std::int64_t begin, std::int64_t elements) {
    std::vector<const void*> sources;
    for (const auto& call : calls) sources.push_back(at(call->input, begin * width));
    if (elements == 0) return;
    device.reduce(strata::StreamKind::communication, first.reduction, first.dtype, destination, sources, elements);
  };
  const std::int64_t piece = first.elements / size;
  if (first.kind == CollectiveKind::all_reduce) reduce(first.output, 0, first.elements);
  for (std::int64_t i = 0; i < size; ++i) {
    const CollectiveCall& own = *calls[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < size; ++j) {
      const CollectiveCall& peer = *calls[static_cast<std::size_t>(j)];
      if (own.kind == CollectiveKind::all_gather) {
        copy(at(own.output, own.elements * j * width), peer.input, own.elements * width);
      } else if (own.kind == CollectiveKind::all_to_all) {
        copy(at(own.output, piece * j * width), at(peer.input, piece * i * width), piece * width);
      }
    }
    if (own.kind == CollectiveKind::all_reduce) copy(own.output, first.output, own.elements * width);
    if (own.kind == CollectiveKind::reduce_scatter) reduce(own.output, piece * i, piece);
    if (own.kind == CollectiveKind::broadcast) {
      copy(own.output, calls[static_cast<std::size_t>(own.root)]->input, own.elements * width);
    }
  }
}

/// What all ranks share. `mutex` guards everything.
struct Exchange {
  struct Rank {
    bool has_left = false;
    /// Collectives that this rank has started and that are not done, in order.
    std::deque<std::shared_ptr<Meeting>> pending = {};
    /// How many collectives it has started in each group.
    std::map<std::vector<int>, std::int64_t> started = {};
  };

  Exchange(int rank_count, double timeout) : ranks(static_cast<std::size_t>(rank_count)), timeout(timeout) {}

  /// Waits until `is_over`. `in_words` makes a message of what went wrong. \throws AbortedError. \throws RuntimeError
  /// after the timeout.
  template <class IsOver, class InWords>
  void wait(std::unique_lock<std::mutex>& lock, IsOver is_over, InWords in_words) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout);
    const auto wakes = [&] { return is_over() || abort_reason.has_value(); };
    const bool woken =
        changed.wait_until(lock, std::chrono::time_point_cast<std::chrono::steady_clock::duration>(deadline), wakes);
    // The reason of an abort comes first, because ranks that it has stopped are missing as well.
    if (abort_reason) throw strata::AbortedError(in_words("stopped because a rank failed: " + *abort_reason));
    if (!woken) throw strata::RuntimeError(in_words("no end after " + std::to_string(timeout) + " s"));
  }

  /// Runs the collectives that are the oldest of all their members. The host starts collectives in an order in which
  /// this never stops.
  void advance(strata::Device& device) {
    for (bool moves = true; moves;) {
      moves = false;
      for (const Rank& rank : ranks) {
        if (rank.pending.empty() || !is_ready(*rank.pending.front())) continue;
        const std::shared_ptr<Meeting> meeting = rank.pending.front();
        run(*meeting, device);
        finish(*meeting);
        moves = true;
      }
    }
  }

  void finish(Meeting& meeting) {
    meeting.is_done = true;
    for (Rank& rank : ranks) std::erase_if(rank.pending, [&](const auto& other) { return other.get() == &meeting; });
    changed.notify_all();
  }

  [[nodiscard]] bool is_ready(const Meeting& meeting) const {
    return meeting.is_complete() && std::all_of(meeting.ranks.begin(), meeting.ranks.end(), [&](int rank) {
             return ranks[static_cast<std::size_t>(rank)].pending.front().get() == &meeting;
           });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Rank> ranks;
  /// The collectives of each group by number, as long as a member has still to arrive.
  std::map<std::pair<std::vector<int>, std::int64_t>, std::shared_ptr<Meeting>> meetings;
  /// Messages by sender, receiver and id.
  std::map<std::tuple<int, int, std::uint64_t>, std::deque<std::vector<std::byte>>> mailbox;
  std::optional<std::string> abort_reason;
  double timeout;
};

/// The part of one rank in a collective.
class MyPluginCollective final : public strata::Request {
 public:
  MyPluginCollective(std::shared_ptr<Exchange> exchange, std::shared_ptr<Meeting> meeting, int rank)
      : exchange_(std::move(exchange)), meeting_(std::move(meeting)), rank_(rank) {}

  /// Peers must not use this rank's memory once it has given up.
  ~MyPluginCollective() override {
    const std::lock_guard lock(exchange_->mutex);
    if (meeting_->is_done) return;
    if (meeting_->fault.empty()) meeting_->fault = "rank " + std::to_string(rank_) + " has given up";
    exchange_->finish(*meeting_);
  }

  void wait() override {
    std::unique_lock lock(exchange_->mutex);
    const CollectiveCall& call = meeting_->call_of(rank_);
    const auto words = [&](const std::string& fault) {
      return message_of(rank_, std::string(to_string(call.kind)), call.name, fault);
    };
    exchange_->wait(
        lock, [&] { return meeting_->is_done || missing(true) != ""; },
        [&](const std::string& why) { return words(why + "; it waits for" + missing(false)); });
    if (!meeting_->fault.empty()) throw strata::RuntimeError(words(meeting_->fault));
    if (!meeting_->is_done) throw strata::RuntimeError(words("it waits for" + missing(true) + ", which has left"));
  }

 private:
  /// The members that have not arrived, or only those that never will.
  [[nodiscard]] std::string missing(bool left_only) const {
    std::string text;
    for (std::size_t i = 0; i < meeting_->ranks.size(); ++i) {
      const int rank = meeting_->ranks[i];
      if (meeting_->calls[i] || (left_only && !exchange_->ranks[static_cast<std::size_t>(rank)].has_left)) continue;
      text += " rank " + std::to_string(rank);
    }
    return text;
  }

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

/// A send has been copied when it starts. A receive copies when it is waited for.
class MyPluginMessage final : public strata::Request {
 public:
  MyPluginMessage(std::shared_ptr<Exchange> exchange, int rank, std::optional<MessageCall> receive)
      : exchange_(std::move(exchange)), rank_(rank), receive_(receive) {}

  void wait() override {
    if (!receive_) return;
    std::unique_lock lock(exchange_->mutex);
    const auto words = [&](const std::string& fault) {
      return message_of(rank_, "receive from rank " + std::to_string(receive_->peer), receive_->name, fault);
    };
    auto& waiting = exchange_->mailbox[{receive_->peer, rank_, receive_->id}];
    const bool& has_left = exchange_->ranks[static_cast<std::size_t>(receive_->peer)].has_left;
    exchange_->wait(
        lock, [&] { return !waiting.empty() || has_left; }, words);
    if (waiting.empty()) throw strata::RuntimeError(words("the sender has left"));
    const std::vector<std::byte> message = std::move(waiting.front());
    waiting.pop_front();
    if (std::ssize(message) != receive_->bytes) {
      throw strata::RuntimeError(
          words("found " + std::to_string(message.size()) + " bytes; accepted: " + std::to_string(receive_->bytes)));
    }
    std::copy(message.begin(), message.end(), static_cast<std::byte*>(receive_->data));
  }

 private:
  std::shared_ptr<Exchange> exchange_;
  int rank_;
  std::optional<MessageCall> receive_;
};

class MyPluginCommunicator final : public strata::Communicator {
 public:
  MyPluginCommunicator(std::shared_ptr<Exchange> exchange, int rank, strata::Device& device)
      : exchange_(std::move(exchange)), rank_(rank), device_(device) {}

  ~MyPluginCommunicator() override {
    const std::lock_guard lock(exchange_->mutex);
    exchange_->ranks[static_cast<std::size_t>(rank_)].has_left = true;
    exchange_->changed.notify_all();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rank_count() const override { return static_cast<int>(exchange_->ranks.size()); }

  [[nodiscard]] int create_group(const std::vector<int>& ranks) override {
    std::vector<int> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    const bool is_valid = std::find(ranks.begin(), ranks.end(), rank_) != ranks.end() && sorted.front() >= 0 &&
                          sorted.back() < rank_count() &&
                          std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    if (!is_valid) {
      throw strata::RuntimeError("rank " + std::to_string(rank_) + ": a group needs ranks of the world, each once, " +
                                 "with this one among them");
    }
    groups_.push_back(ranks);
    return static_cast<int>(groups_.size()) - 1;
  }

  /// Collectives of a group meet by their number, and must agree on all else.
  [[nodiscard]] std::unique_ptr<strata::Request> start(const CollectiveCall& call) override {
    const std::vector<int>& members = groups_.at(static_cast<std::size_t>(call.group));
    if (const std::string fault = misuse(call, members.size()); !fault.empty()) {
      throw strata::RuntimeError(message_of(rank_, std::string(to_string(call.kind)), call.name, fault));
    }
    const std::lock_guard lock(exchange_->mutex);
    Exchange::Rank& own = exchange_->ranks[static_cast<std::size_t>(rank_)];
    const auto place = std::pair(members, own.started[members]++);
    std::shared_ptr<Meeting>& met = exchange_->meetings[place];
    if (!met) met = std::make_shared<Meeting>(Meeting{.ranks = members, .calls = {members.size(), std::nullopt}});
    const std::shared_ptr<Meeting> meeting = met;
    for (const auto& other : meeting->calls) {
      if (!other || agree(*other, call)) continue;
      const std::string name = other->name == nullptr ? "" : *other->name;
      meeting->fault = "a peer is in " + std::string(to_string(other->kind)) + " '" + name + "' instead";
    }
    const auto index = std::find(members.begin(), members.end(), rank_) - members.begin();
    meeting->calls[static_cast<std::size_t>(index)] = call;
    if (!meeting->is_done) own.pending.push_back(meeting);
    if (meeting->is_complete()) exchange_->meetings.erase(place);
    if (!meeting->fault.empty()) exchange_->finish(*meeting);
    exchange_->advance(device_);
    return std::make_unique<MyPluginCollective>(exchange_, meeting, rank_);
  }

  [[nodiscard]] std::unique_ptr<strata::Request> send(const MessageCall& call) override {
    require_peer(call);
    const auto* data = static_cast<const std::byte*>(call.data);
    const std::lock_guard lock(exchange_->mutex);
    exchange_->mailbox[{rank_, call.peer, call.id}].emplace_back(data, data + call.bytes);
    exchange_->changed.notify_all();
    return std::make_unique<MyPluginMessage>(exchange_, rank_, std::nullopt);
  }

  [[nodiscard]] std::unique_ptr<strata::Request> receive(const MessageCall& call) override {
    require_peer(call);
    return std::make_unique<MyPluginMessage>(exchange_, rank_, call);
  }

  void abort(const std::string& reason) noexcept override {
    const std::lock_guard lock(exchange_->mutex);
    if (!exchange_->abort_reason) exchange_->abort_reason = reason;
    exchange_->changed.notify_all();
  }

 private:
  static bool agree(const CollectiveCall& one, const CollectiveCall& other) {
    const auto key = [](const CollectiveCall& call) {
      return std::tuple(call.kind, call.reduction, call.dtype, call.root, call.elements, call.id);
    };
    return key(one) == key(other);
  }

  static std::string misuse(const CollectiveCall& call, std::size_t size) {
    const auto count = static_cast<std::int64_t>(size);
    const bool has_pieces = call.kind == CollectiveKind::reduce_scatter || call.kind == CollectiveKind::all_to_all;
    if (call.elements < 0 || (has_pieces && call.elements % count != 0)) {
      return std::to_string(call.elements) + " elements do not divide among " + std::to_string(count) + " ranks";
    }
    if (call.root < 0 || call.root >= count) return "root " + std::to_string(call.root) + " is not in the group";
    if (call.elements > 0 && (call.input == nullptr || call.output == nullptr)) return "no memory given";
    return "";
  }

  void require_peer(const MessageCall& call) const {
    if (call.peer >= 0 && call.peer < rank_count() && call.bytes >= 0) return;
    throw strata::RuntimeError(message_of(
        rank_, "message", call.name, "found peer " + std::to_string(call.peer) + "; accepted: a rank of the world"));
  }

  std::shared_ptr<Exchange> exchange_;
  int rank_;
  strata::Device& device_;
  std::vector<std::vector<int>> groups_;
};

class MyPluginWorld final : public strata::World {
 public:
  MyPluginWorld(int rank_count, double timeout) : exchange_(std::make_shared<Exchange>(rank_count, timeout)) {}

  [[nodiscard]] int rank_count() const override { return static_cast<int>(exchange_->ranks.size()); }

  [[nodiscard]] std::vector<int> local_ranks() const override {
    std::vector<int> ranks(exchange_->ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  [[nodiscard]] strata::CommunicatorLimits limits() const override {
    return {.channel_capacity = 0, .matches_messages_by_id = true};
  }

  [[nodiscard]] std::unique_ptr<strata::Communicator> connect(int rank, strata::Device& device) override {
    if (!device.is_host_memory()) {
      throw strata::RuntimeError("communicator 'my_plugin' needs a device in host memory; found " +
                                 device.description());
    }
    return std::make_unique<MyPluginCommunicator>(exchange_, rank, device);
  }

 private:
  std::shared_ptr<Exchange> exchange_;
};

class MyPluginFactory final : public strata::CommunicatorFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<strata::World> create(const strata::Options& options, int rank_count) const override {
    return std::make_unique<MyPluginWorld>(rank_count, options.number("timeout"));
  }

 private:
  strata::OptionSchema schema_{{.name = "timeout",
                                .type = strata::OptionType::number,
                                .default_value = 300.0,
                                .documentation = "Seconds that a rank waits for its peers.",
                                .minimum = 0.01,
                                .maximum = 86400.0,
                                .role = strata::OptionRole::timeout}};
};

}  // namespace

STRATA_PLUGIN(communicator, "my_plugin", "0.1.0", "Apache-2.0", "Threads of one process.", MyPluginFactory);

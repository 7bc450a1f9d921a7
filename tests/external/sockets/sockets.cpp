/// sockets: a communicator for ranks on one machine. They are threads of one process, or a process each if `strata
/// launch` starts them. Every collective is made of letters: each rank sends each other rank what that rank needs.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>

#include "mailbox.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"

namespace sockets {
namespace {

using namespace strata;

/// Memory that a collective reads or writes.
struct Memory {
  const std::byte* begin = nullptr;
  std::int64_t bytes = 0;
};

bool overlap(const Memory& a, const Memory& b) { return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes; }

void copy(void* to, const void* from, std::int64_t bytes) {
  // A rank's own piece may be in place.
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

/// One rank's part of a collective.
class Collective {
 public:
  Collective(Mailbox& mailbox, Device& device, const CollectiveCall& call, std::vector<int> members,
             std::string subject)
      : mailbox_(mailbox),
        device_(device),
        call_(call),
        members_(std::move(members)),
        subject_(std::move(subject)),
        own_(std::find(members_.begin(), members_.end(), mailbox.rank()) - members_.begin()) {}

  /// Sends each member its part.
  void begin() {
    for (std::int64_t i = 0; i < size(); ++i) {
      const auto [data, bytes] = part_for(i);
      if (i != own_) mailbox_.post(member(i), subject_, text(), data, bytes);
    }
  }

  /// Takes the letters of all members and computes this rank's output, unless that is done.
  void finish() {
    if (std::exchange(is_done_, true)) return;
    std::vector<Letter> letters(members_.size());
    std::vector<const void*> parts(members_.size());
    for (std::int64_t i = 0; i < size(); ++i) {
      parts[index(i)] = part_for(own_).first;
      if (i == own_) continue;
      letters[index(i)] = mailbox_.take(member(i), subject_, [&](const std::string& fault) { return words(fault); });
      parts[index(i)] = letters[index(i)].data.data();
      if (letters[index(i)].text == text()) continue;
      throw RuntimeError(words("rank " + std::to_string(member(i)) + " calls " + letters[index(i)].text + " instead"));
    }
    compute(parts);
  }

  /// True if both access some memory that one of them writes.
  [[nodiscard]] bool conflicts(const Collective& other) const {
    return overlap(output(), other.output()) || overlap(output(), other.input()) || overlap(input(), other.output());
  }

 private:
  static std::size_t index(std::int64_t member) { return static_cast<std::size_t>(member); }
  [[nodiscard]] std::int64_t size() const { return std::ssize(members_); }
  [[nodiscard]] Memory input() const { return {static_cast<const std::byte*>(call_.input), call_.elements * width()}; }
  [[nodiscard]] Memory output() const {
    std::int64_t elements = call_.elements;
    if (call_.kind == CollectiveKind::all_gather) elements *= size();
    if (call_.kind == CollectiveKind::reduce_scatter) elements /= size();
    return {static_cast<const std::byte*>(call_.output), elements * width()};
  }
  [[nodiscard]] int member(std::int64_t i) const { return members_[index(i)]; }
  [[nodiscard]] std::int64_t width() const { return static_cast<std::int64_t>(size_of(call_.dtype)); }

  /// What this rank sends to member `i`: everything, or the member's piece.
  [[nodiscard]] std::pair<const std::byte*, std::int64_t> part_for(std::int64_t i) const {
    const auto* input = static_cast<const std::byte*>(call_.input);
    const std::int64_t all = call_.elements * width();
    if (call_.kind == CollectiveKind::broadcast) return {input, own_ == call_.root ? all : 0};
    if (call_.kind == CollectiveKind::all_reduce || call_.kind == CollectiveKind::all_gather) return {input, all};
    return {input + all / size() * i, all / size()};
  }

  /// `parts`: what each member sends to this rank, in group order.
  void compute(const std::vector<const void*>& parts) {
    const std::int64_t received = part_for(own_).second;
    auto* output = static_cast<std::byte*>(call_.output);
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce_scatter:
        // In group order, so that every rank gets the same bits.
        if (received == 0) return;
        return device_.reduce(StreamKind::communication, call_.reduction, call_.dtype, output, parts,
                              received / width());
      case CollectiveKind::all_gather:
      case CollectiveKind::all_to_all:
        for (std::int64_t i = 0; i < size(); ++i) copy(output + received * i, parts[index(i)], received);
        return;
      case CollectiveKind::broadcast:
        return copy(output, parts[index(call_.root)], call_.elements * width());
    }
  }

  /// What all members must agree on.
  [[nodiscard]] std::string text() const {
    return std::string(to_string(call_.kind)) + " (" + std::string(to_string(call_.reduction)) + ") of " +
           std::to_string(call_.elements) + " " + std::string(to_string(call_.dtype)) + ", root " +
           std::to_string(call_.root) + ", id " + std::to_string(call_.id);
  }
  [[nodiscard]] std::string words(const std::string& fault) const {
    return "rank " + std::to_string(mailbox_.rank()) + ": " + text() + " '" +
           (call_.name == nullptr ? "" : *call_.name) + "': " + fault;
  }

  Mailbox& mailbox_;
  Device& device_;
  CollectiveCall call_;
  std::vector<int> members_;
  std::string subject_;
  /// Position of this rank among the members.
  std::int64_t own_;
  bool is_done_ = false;
};

/// The caller's handle of a collective, which the communicator may finish earlier.
class CollectiveRequest final : public Request {
 public:
  explicit CollectiveRequest(std::shared_ptr<Collective> collective) : collective_(std::move(collective)) {}
  void wait() override { collective_->finish(); }

 private:
  std::shared_ptr<Collective> collective_;
};

class Sent final : public Request {
 public:
  /// The data was copied when it was posted.
  void wait() override {}
};

class Receipt final : public Request {
 public:
  Receipt(Mailbox& mailbox, const MessageCall& call, std::string subject)
      : mailbox_(mailbox), call_(call), subject_(std::move(subject)) {}

  void wait() override {
    const auto words = [&](const std::string& fault) {
      return "rank " + std::to_string(mailbox_.rank()) + ": message '" + (call_.name == nullptr ? "" : *call_.name) +
             "': " + fault;
    };
    const Letter letter = mailbox_.take(call_.peer, subject_, words);
    if (std::ssize(letter.data) != call_.bytes) {
      throw RuntimeError(words("found " + std::to_string(letter.data.size()) + " bytes of rank " +
                               std::to_string(call_.peer) + "; accepted: " + std::to_string(call_.bytes)));
    }
    copy(call_.data, letter.data.data(), call_.bytes);
  }

 private:
  Mailbox& mailbox_;
  MessageCall call_;
  std::string subject_;
};

class SocketCommunicator final : public Communicator {
 public:
  SocketCommunicator(int rank, Endpoints endpoints, double timeout, Device& device)
      : mailbox_(rank, std::move(endpoints), timeout), device_(device) {}

  [[nodiscard]] int rank() const override { return mailbox_.rank(); }
  [[nodiscard]] int rank_count() const override { return mailbox_.rank_count(); }

  [[nodiscard]] int create_group(const std::vector<int>& ranks) override {
    std::vector<int> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    const bool is_valid = std::find(ranks.begin(), ranks.end(), rank()) != ranks.end() && sorted.front() >= 0 &&
                          sorted.back() < rank_count() &&
                          std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    if (!is_valid) {
      throw RuntimeError("rank " + std::to_string(rank()) +
                         ": a group needs ranks of the world, each once, with this one among them");
    }
    groups_.push_back(ranks);
    return static_cast<int>(groups_.size()) - 1;
  }

  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override {
    const std::vector<int>& members = groups_.at(static_cast<std::size_t>(call.group));
    const std::int64_t size = std::ssize(members);
    const bool has_pieces = call.kind == CollectiveKind::reduce_scatter || call.kind == CollectiveKind::all_to_all;
    if (call.elements < 0 || call.root < 0 || call.root >= size || (has_pieces && call.elements % size != 0)) {
      throw RuntimeError("rank " + std::to_string(rank()) + ": a " + std::string(to_string(call.kind)) + " of " +
                         std::to_string(call.elements) + " elements with root " + std::to_string(call.root) +
                         " does not fit a group of " + std::to_string(size) + " ranks");
    }
    // The collectives of a group meet by their number.
    std::string group = "collective of";
    for (const int member : members) group.append(" ").append(std::to_string(member));
    std::string subject = group + ", number " + std::to_string(started_[group]++);
    auto collective = std::make_shared<Collective>(mailbox_, device_, call, members, std::move(subject));
    finish_before(*collective);
    collective->begin();
    in_flight_.push_back(collective);
    return std::make_unique<CollectiveRequest>(std::move(collective));
  }

  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override {
    require_peer(call);
    mailbox_.post(call.peer, subject_of(call), "", call.data, call.bytes);
    return std::make_unique<Sent>();
  }

  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override {
    require_peer(call);
    return std::make_unique<Receipt>(mailbox_, call, subject_of(call));
  }

  void abort(const std::string& reason) noexcept override { mailbox_.abort(reason); }

 private:
  static std::string subject_of(const MessageCall& call) { return "message " + std::to_string(call.id); }

  void require_peer(const MessageCall& call) const {
    if (call.peer >= 0 && call.peer < rank_count() && call.bytes >= 0) return;
    throw RuntimeError("rank " + std::to_string(rank()) + ": found peer " + std::to_string(call.peer) +
                       "; accepted: a rank of the world");
  }

  /// Collectives that access the same memory run in the order in which they are started.
  void finish_before(const Collective& next) {
    std::erase_if(in_flight_, [](const auto& each) { return each.expired(); });
    for (const std::weak_ptr<Collective>& each : in_flight_) {
      const std::shared_ptr<Collective> earlier = each.lock();
      if (earlier && earlier->conflicts(next)) earlier->finish();
    }
  }

  Mailbox mailbox_;
  Device& device_;
  std::vector<std::vector<int>> groups_;
  /// How many collectives each group has started.
  std::map<std::string, std::int64_t> started_;
  std::vector<std::weak_ptr<Collective>> in_flight_;
};

class SocketWorld final : public World {
 public:
  /// All ranks are threads of this process.
  SocketWorld(int rank_count, double timeout) : rank_count_(rank_count), timeout_(timeout) {
    local_.resize(static_cast<std::size_t>(rank_count));
    std::iota(local_.begin(), local_.end(), 0);
  }
  /// This process is one rank.
  SocketWorld(int rank, int rank_count, int run, double timeout)
      : rank_count_(rank_count), timeout_(timeout), local_{rank}, run_(run) {}

  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] std::vector<int> local_ranks() const override { return local_; }
  [[nodiscard]] CommunicatorLimits limits() const override {
    return {.channel_capacity = 0, .matches_messages_by_id = true};
  }

  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    if (!device.is_host_memory()) {
      throw RuntimeError("communicator 'sockets' needs a device in host memory; found " + device.description());
    }
    return std::make_unique<SocketCommunicator>(rank, endpoints_of(rank), timeout_, device);
  }

  // All ranks are on this machine.
  [[nodiscard]] int ranks_on_host() const override { return rank_count_; }
  [[nodiscard]] int index_on_host(int rank) const override { return rank; }

 private:
  /// Sockets are made only now, because `strata check` makes worlds of thousands of ranks that never connect.
  Endpoints endpoints_of(int rank) {
    if (run_) return connect_processes(rank, rank_count_, *run_, timeout_);
    const std::lock_guard lock(mutex_);
    if (endpoints_.empty()) endpoints_ = connect_threads(rank_count_);
    return std::move(endpoints_.at(static_cast<std::size_t>(rank)));
  }

  int rank_count_;
  double timeout_;
  std::vector<int> local_;
  /// Tells runs of processes apart. Empty: ranks are threads.
  std::optional<int> run_;
  std::mutex mutex_;
  /// Of threads that have not connected yet.
  std::vector<Endpoints> endpoints_;
};

/// A number that `strata launch` gives each process.
int launched(const char* name) {
  const char* text = std::getenv(name);
  char* end = nullptr;
  const long value = text == nullptr ? -1 : std::strtol(text, &end, 10);
  if (text != nullptr && (end == text || *end != '\0' || value < 0 || value > 65535)) {
    throw ConfigurationError(std::string(name) + ": found '" + text + "'; accepted: a number from 0 to 65535");
  }
  return static_cast<int>(value);
}

class SocketFactory final : public CommunicatorFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override {
    const double timeout = options.number("timeout");
    const int rank = launched("RANK");
    if (rank < 0) return std::make_unique<SocketWorld>(rank_count, timeout);
    if (launched("WORLD_SIZE") != rank_count || rank >= rank_count) {
      throw ConfigurationError("the configuration has " + std::to_string(rank_count) + " ranks, and this is rank " +
                               std::to_string(rank) + " of " + std::to_string(launched("WORLD_SIZE")) + " processes");
    }
    return std::make_unique<SocketWorld>(rank, rank_count, launched("MASTER_PORT"), timeout);
  }

 private:
  OptionSchema schema_{{.name = "timeout",
                        .type = OptionType::number,
                        .default_value = 300.0,
                        .documentation = "Seconds that a rank waits for its peers.",
                        .minimum = 0.01,
                        .maximum = 86400.0,
                        .role = OptionRole::timeout}};
};

}  // namespace
}  // namespace sockets

STRATA_PLUGIN(communicator, "sockets", "1.0.0", "MIT", "Threads or processes of one machine, over Unix sockets.",
              sockets::SocketFactory);

#include "rendezvous/exchange.hpp"

#include <csignal>
#include <cstring>
#include <map>
#include <utility>

#include "rendezvous/process_environment.hpp"
#include "strata/communicator.hpp"

namespace {

using namespace strata;
using rendezvous::Clock;
using rendezvous::Store;
using Bytes = std::vector<std::byte>;

/// When a rank fails, and whether it reports that.
struct Fault {
  int rank = -1;
  bool silent = false;
  /// True if it throws what is no std::exception, then and whenever it waits.
  bool foreign = false;
  int calls = 0;
};

std::string take(Store& store, const std::string& key) {
  const auto value = store.take(key, Clock::now() + std::chrono::minutes(5));
  if (value) return *value;
  const auto failure = store.failure();
  throw AbortedError(failure ? failure->reason : "waited in vain for " + key);
}

Bytes to_bytes(const std::string& text) {
  Bytes bytes(text.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string to_text(const void* data, std::int64_t bytes) {
  return {static_cast<const char*>(data), static_cast<std::size_t>(bytes)};
}

/// Reads the inputs of all ranks from the store and computes this rank's output.
class CollectiveRequest final : public Request {
 public:
  CollectiveRequest(Store& store, Device& device, std::vector<std::string> keys, std::size_t index,
                    const CollectiveCall& call, bool throws_foreign)
      : store_(store),
        device_(device),
        keys_(std::move(keys)),
        index_(index),
        call_(call),
        throws_foreign_(throws_foreign) {
    const std::string input = to_text(call.input, call.elements * static_cast<std::int64_t>(size_of(call.dtype)));
    own_ = to_bytes(input);
    store_.put(keys_[index_], input, static_cast<int>(keys_.size()) - 1);
  }

  void wait() override {
    if (throws_foreign_) throw 42;
    std::vector<Bytes> inputs;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      inputs.push_back(i == index_ ? own_ : to_bytes(take(store_, keys_[i])));
    }
    const auto ranks = static_cast<std::int64_t>(keys_.size());
    const std::int64_t piece = call_.elements / ranks;
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
        return reduce(inputs, 0, call_.elements);
      case CollectiveKind::reduce_scatter:
        return reduce(inputs, piece * static_cast<std::int64_t>(index_), piece);
      case CollectiveKind::all_gather:
        for (std::int64_t i = 0; i < ranks; ++i)
          copy(inputs[static_cast<std::size_t>(i)], 0, i * call_.elements, call_.elements);
        return;
      case CollectiveKind::all_to_all:
        for (std::int64_t i = 0; i < ranks; ++i) {
          copy(inputs[static_cast<std::size_t>(i)], piece * static_cast<std::int64_t>(index_), i * piece, piece);
        }
        return;
      case CollectiveKind::broadcast:
        return copy(inputs[static_cast<std::size_t>(call_.root)], 0, 0, call_.elements);
    }
  }

 private:
  [[nodiscard]] std::int64_t width() const { return static_cast<std::int64_t>(size_of(call_.dtype)); }

  void reduce(const std::vector<Bytes>& inputs, std::int64_t begin, std::int64_t elements) {
    if (elements == 0) return;
    std::vector<const void*> sources;
    for (const Bytes& input : inputs) sources.push_back(input.data() + begin * width());
    device_.reduce(StreamKind::communication, call_.reduction, call_.dtype, call_.output, sources, elements);
  }

  void copy(const Bytes& from, std::int64_t begin, std::int64_t to, std::int64_t elements) {
    if (elements == 0) return;
    std::memcpy(static_cast<std::byte*>(call_.output) + to * width(), from.data() + begin * width(),
                static_cast<std::size_t>(elements * width()));
  }

  Store& store_;
  Device& device_;
  std::vector<std::string> keys_;
  std::size_t index_;
  CollectiveCall call_;
  bool throws_foreign_;
  Bytes own_;
};

class SendRequest final : public Request {
 public:
  void wait() override {}
};

class ReceiveRequest final : public Request {
 public:
  ReceiveRequest(Store& store, std::string key, const MessageCall& call)
      : store_(store), key_(std::move(key)), call_(call) {}
  void wait() override {
    const std::string value = take(store_, key_);
    if (!value.empty()) std::memcpy(call_.data, value.data(), value.size());
  }

 private:
  Store& store_;
  std::string key_;
  MessageCall call_;
};

/// A communicator that sends all data through the store of the rendezvous. That is slow, but enough to test processes
/// on a CPU.
class ExchangeCommunicator final : public Communicator {
 public:
  ExchangeCommunicator(std::shared_ptr<Store> store, int rank, int rank_count, const Fault& fault, Device& device)
      : store_(std::move(store)), rank_(rank), rank_count_(rank_count), fault_(fault), device_(device) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] int create_group(const std::vector<int>& ranks) override {
    groups_.push_back(ranks);
    return static_cast<int>(groups_.size()) - 1;
  }

  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override {
    const bool fails = rank_ == fault_.rank && fault_.calls-- <= 0;
    if (fails && !fault_.foreign) {
      if (fault_.silent) (void)std::raise(SIGKILL);
      throw RuntimeError("this rank was told to fail");
    }
    const std::vector<int>& ranks = groups_.at(static_cast<std::size_t>(call.group));
    std::string key;
    for (const int rank : ranks) key += std::to_string(rank) + " ";
    key = numbered(key + "collective " + std::to_string(call.id));
    std::vector<std::string> keys;
    std::size_t index = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] == rank_) index = i;
      keys.push_back(key + " of " + std::to_string(ranks[i]));
    }
    return std::make_unique<CollectiveRequest>(*store_, device_, std::move(keys), index, call, fails);
  }

  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override {
    store_->put(message_key(rank_, call.peer, call.id), to_text(call.data, call.bytes), 1);
    return std::make_unique<SendRequest>();
  }
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override {
    return std::make_unique<ReceiveRequest>(*store_, message_key(call.peer, rank_, call.id), call);
  }
  void abort(const std::string& reason) noexcept override { store_->fail(rank_, reason); }

 private:
  /// Makes a key unique, because ids repeat in every step.
  [[nodiscard]] std::string numbered(const std::string& key) { return key + " " + std::to_string(uses_[key]++); }
  [[nodiscard]] std::string message_key(int from, int to, std::uint64_t id) {
    return numbered("message " + std::to_string(from) + " " + std::to_string(to) + " " + std::to_string(id));
  }

  std::shared_ptr<Store> store_;
  int rank_;
  int rank_count_;
  Fault fault_;
  Device& device_;
  std::vector<std::vector<int>> groups_;
  std::map<std::string, int> uses_;
};

class ExchangeWorld final : public World {
 public:
  ExchangeWorld(const rendezvous::ProcessEnvironment& environment, const Fault& fault)
      : environment_(environment),
        fault_(fault),
        store_(rendezvous::join(environment, Clock::now() + std::chrono::minutes(1))) {}

  [[nodiscard]] int rank_count() const override { return environment_.rank_count; }
  [[nodiscard]] std::vector<int> local_ranks() const override { return {environment_.rank}; }
  [[nodiscard]] CommunicatorLimits limits() const override { return {0, true}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    return std::make_unique<ExchangeCommunicator>(store_, rank, rank_count(), fault_, device);
  }
  [[nodiscard]] int ranks_on_host() const override { return environment_.rank_count; }
  [[nodiscard]] int index_on_host(int rank) const override { return rank; }

 private:
  rendezvous::ProcessEnvironment environment_;
  Fault fault_;
  std::shared_ptr<Store> store_;
};

class Factory final : public CommunicatorFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override {
    const auto environment = rendezvous::read_process_environment(rendezvous::environment_variable);
    if (!environment || environment->rank_count != rank_count)
      throw ConfigurationError("this is not a run of processes");
    return std::make_unique<ExchangeWorld>(
        *environment, Fault{static_cast<int>(options.integer("faulty_rank")), options.boolean("silent"),
                            options.boolean("foreign"), static_cast<int>(options.integer("calls"))});
  }

 private:
  OptionSchema schema_{{"faulty_rank", OptionType::integer, std::int64_t{-1}, "The rank that fails.", -1, 1000, {}},
                       {"silent", OptionType::boolean, false, "Whether it ends without a word.", {}, {}, {}},
                       {"foreign", OptionType::boolean, false, "Whether its waits throw an int.", {}, {}, {}},
                       {"calls", OptionType::integer, std::int64_t{0}, "Collectives before that.", 0, 1000000, {}}};
};

}  // namespace

STRATA_PLUGIN(communicator, "exchange", "1.0.0", "Apache-2.0", "Processes that exchange everything through rank 0.",
              Factory);

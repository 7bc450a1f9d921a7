#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "strata/communicator.hpp"

namespace strata::host {

/// A communicator without peers, so that one rank's program runs without the others. Collectives give the rank's own
/// contribution, as if the others had zeros. Messages do nothing.
class SilentCommunicator final : public Communicator {
 public:
  SilentCommunicator(int rank, int ranks, Device& device) : rank_(rank), ranks_(ranks), device_(device) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rank_count() const override { return ranks_; }
  [[nodiscard]] int create_group(const std::vector<int>& ranks) override {
    sizes_.push_back(static_cast<std::int64_t>(ranks.size()));
    return static_cast<int>(sizes_.size()) - 1;
  }
  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override {
    const bool shrinks = call.kind == CollectiveKind::reduce_scatter;
    const std::int64_t elements =
        shrinks ? call.elements / sizes_.at(static_cast<std::size_t>(call.group)) : call.elements;
    const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(call.dtype));
    if (call.output != call.input) device_.copy(StreamKind::compute, call.output, call.input, bytes);
    return done();
  }
  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& /*call*/) override { return done(); }
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& /*call*/) override { return done(); }
  void abort(const std::string& /*reason*/) noexcept override {}

 private:
  class Done final : public Request {
    void wait() override {}
  };
  static std::unique_ptr<Request> done() { return std::make_unique<Done>(); }

  int rank_;
  int ranks_;
  Device& device_;
  /// Ranks of each group.
  std::vector<std::int64_t> sizes_;
};

/// Ranks of one process that do not communicate.
class SilentWorld final : public World {
 public:
  explicit SilentWorld(int ranks) : ranks_(ranks) {}

  [[nodiscard]] int rank_count() const override { return ranks_; }
  [[nodiscard]] std::vector<int> local_ranks() const override {
    std::vector<int> ranks(static_cast<std::size_t>(ranks_));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  [[nodiscard]] CommunicatorLimits limits() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    return std::make_unique<SilentCommunicator>(rank, ranks_, device);
  }

 private:
  int ranks_;
};

}  // namespace strata::host

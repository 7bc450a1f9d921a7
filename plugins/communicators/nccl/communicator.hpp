#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.hpp"
#include "strata/communicator.hpp"

namespace strata::nccl {

/// Which rank a communicator is for.
struct Place {
  int rank = 0;
  int rank_count = 1;
  /// Ranks of this process.
  int local_rank_count = 1;
};

/// One rank's end. Groups and pairs of ranks have NCCL communicators of their own; a pair has one for each direction,
/// so that messages in one direction never wait for those in the other.
class NcclCommunicator final : public Communicator {
 public:
  /// \throws ConfigurationError if the device's streams are not those of the backend's runtime.
  NcclCommunicator(Backend backend, std::shared_ptr<rendezvous::Store> store, const Place& place, Device& device,
                   double timeout);

  [[nodiscard]] int rank() const override { return place_.rank; }
  [[nodiscard]] int rank_count() const override { return place_.rank_count; }
  [[nodiscard]] int create_group(const std::vector<int>& ranks) override;
  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override;
  void abort(const std::string& reason) noexcept override { engine_.abort(reason); }
  void check() override { engine_.check(); }
  [[nodiscard]] std::optional<std::string> uncapturable() const override;
  [[nodiscard]] std::unique_ptr<CapturedCommunication> capture(const std::function<void()>& communicate) override;

 private:
  using Waiting = std::map<std::uint64_t, std::deque<OperationPointer>>;

  [[nodiscard]] OperationPointer message(Operation::Kind kind, const MessageCall& call);
  [[nodiscard]] std::unique_ptr<Request> hand_over(const LaneKey& lane, const OperationPointer& operation);
  [[nodiscard]] std::unique_ptr<Request> to_itself(const OperationPointer& operation);
  [[nodiscard]] std::unique_ptr<Request> request(const OperationPointer& operation);
  /// Notes where the compute stream is, and whether this is a capture.
  void place_in_work(Operation& operation);
  /// Hands over, and in a capture waits until it is recorded: a graph must not be changed by two threads at once.
  void launch(const Operations& operations);

  Place place_;
  std::shared_ptr<GpuRuntime> gpu_;
  NativeStream compute_;
  std::vector<std::shared_ptr<Link>> groups_;
  /// Messages to this rank itself whose other end has not come.
  Waiting own_sends_;
  Waiting own_receives_;
  /// What is captured; null: nothing is.
  std::shared_ptr<Operations> captured_;
  Engine engine_;
};

}  // namespace strata::nccl

#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine.hpp"
#include "strata/communicator.hpp"

namespace strata::nccl {

/// The rank of a communicator.
struct Place {
  int rank = 0;
  int rank_count = 1;
  /// Number of ranks in this process.
  int local_rank_count = 1;
};

/// A channel of messages from one world rank to another.
struct MessageChannel {
  int from = 0;
  int to = 0;
  int number = 0;

  auto operator<=>(const MessageChannel&) const = default;
};

/// One rank's endpoint. Each group and each channel of messages has its own NCCL communicator and stream. NCCL matches
/// the messages of a communicator by their order, and messages of one channel never wait for those of another.
///
/// A request waits for its own communication only. The compiler assumes that collectives of all groups end in the order
/// in which they were started. host/runtime/requests_in_flight.hpp ensures that by waiting for each of them.
class NcclCommunicator final : public Communicator {
 public:
  /// `device`: one whose streams belong to the runtime of `backend`.
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
  void make_ready(const CommunicationPlan& plan) override;

 private:
  using Waiting = std::map<std::uint64_t, std::deque<OperationPointer>>;

  [[nodiscard]] OperationPointer message(Operation::Kind kind, const MessageCall& call);
  [[nodiscard]] const std::shared_ptr<Link>& group(int number) const {
    return groups_[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] std::shared_ptr<Link> link(const MessageChannel& channel);
  /// Collectives in flight on other links that access the memory of `operation`, so that it must not overtake them.
  [[nodiscard]] Operations conflicts(const Operation& operation);
  [[nodiscard]] std::unique_ptr<Request> hand_over(const OperationPointer& operation);
  [[nodiscard]] std::unique_ptr<Request> to_itself(const OperationPointer& operation);
  [[nodiscard]] std::unique_ptr<Request> request(const OperationPointer& operation);
  /// Records the current end of the compute stream in the operation, and during a capture the marks that it needs.
  void place_in_work(Operation& operation);
  /// Passes operations to the engine. During a capture, waits until they are recorded, because two threads must not
  /// change a graph at the same time.
  void launch(const Operations& operations);
  /// Agrees with all ranks on a number of blocks per kernel. With it, a GPU can run the kernels of as many links at
  /// once as any rank has.
  [[nodiscard]] int agree_on_blocks(std::size_t links);
  /// Executes a collective, or a message through a channel, once with one element, so that NCCL sets it up.
  void warm_up(const CommunicationPlan::Collective& collective);
  void warm_up(const MessageChannel& channel);
  void finish(std::unique_ptr<Request> request);

  Place place_;
  Device& device_;
  std::shared_ptr<rendezvous::Store> store_;
  std::chrono::duration<double> timeout_;
  std::shared_ptr<GpuRuntime> gpu_;
  NativeStream compute_;
  /// State of make_ready(): the keys of communication that is set up, and the number of calls.
  std::set<std::string> warm_;
  int preparations_ = 0;
  std::vector<std::shared_ptr<Link>> groups_;
  /// Messages of this rank to itself whose other end has not been posted yet.
  Waiting own_sends_;
  Waiting own_receives_;
  /// Collectives that were started and that the compute stream does not wait for yet.
  Operations collectives_in_flight_;
  GraphMarks marks_;
  /// Operations of the current capture. Null if there is no capture.
  std::shared_ptr<Operations> captured_;
  Engine engine_;
};

}  // namespace strata::nccl

#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/worker.hpp"
#include "strata/communicator.hpp"

namespace strata::communicators {

/// One rank's endpoint over any transport. A worker thread runs collectives, in the order in which they were started.
/// Messages have no order, and move meanwhile.
class TransportCommunicator final : public Communicator {
 public:
  /// `stream`: of the rank's device. The transport may use it too.
  TransportCommunicator(std::unique_ptr<Transport> transport, int rank, int rank_count, Device& device,
                        std::shared_ptr<DeviceStream> stream, std::chrono::duration<double> timeout);
  /// Leaves the run. Communication in flight fails.
  ~TransportCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] int create_group(const std::vector<int>& ranks) override;
  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override;
  void abort(const std::string& reason) noexcept override { endpoint_->abort(reason); }
  void check() override { endpoint_->check(); }

 private:
  [[nodiscard]] std::unique_ptr<Request> message(Operation::Kind kind, const MessageCall& call);
  /// Runs one collective on the worker.
  void run(const TransportOperation& operation);
  /// Runs `work` on a worker, and completes `completion` with its error.
  void add(Worker& worker, const std::shared_ptr<Completion>& completion, std::function<void()> work);

  int rank_;
  int rank_count_;
  Device& device_;
  std::shared_ptr<DeviceStream> stream_;
  std::shared_ptr<Endpoint> endpoint_;
  /// Tasks of the workers that have not ended.
  std::atomic<int> tasks_ = 0;
  std::vector<std::shared_ptr<Group>> groups_;
  std::map<std::vector<int>, std::shared_ptr<Group>> groups_by_ranks_;
  Staging staging_{*stream_};
  std::shared_ptr<Worker> collectives_ = std::make_shared<Worker>();
  /// Posts messages whose data another stream still computes.
  Worker late_messages_;
};

}  // namespace strata::communicators

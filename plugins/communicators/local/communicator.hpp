#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared_state.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "worker.hpp"

namespace strata::local {

/// One rank's endpoint in a world whose ranks are threads of one process.
class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<SharedState> shared, int rank, Device& device);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rank_count() const override { return shared_->rank_count(); }
  [[nodiscard]] int create_group(const std::vector<int>& ranks) override;
  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override;
  void abort(const std::string& reason) noexcept override;

 private:
  [[nodiscard]] std::unique_ptr<Request> hand_over(const OperationPointer& operation);
  [[nodiscard]] std::unique_ptr<Request> message(Operation::Kind kind, const MessageCall& call);

  std::shared_ptr<SharedState> shared_;
  int rank_;
  Device& device_;
  std::vector<std::shared_ptr<const Group>> groups_;
  Worker worker_;
};

}  // namespace strata::local

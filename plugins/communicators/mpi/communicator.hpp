#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine.hpp"
#include "operation.hpp"
#include "strata/communicator.hpp"

namespace strata::mpi {

/// The endpoint of this process's rank.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<Engine> engine, int rank, int rank_count, Device& device);
  /// Leaves the world.
  ~MpiCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] int create_group(const std::vector<int>& ranks) override;
  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override;
  void abort(const std::string& reason) noexcept override;

 private:
  [[nodiscard]] std::unique_ptr<Request> hand_over(const OperationPointer& operation);
  [[nodiscard]] std::unique_ptr<Request> message(Operation::Kind kind, const MessageCall& call);

  std::shared_ptr<Engine> engine_;
  int rank_;
  int rank_count_;
  Device& device_;
  /// By number. Two numbers may have one group.
  std::vector<std::shared_ptr<Group>> groups_;
};

}  // namespace strata::mpi

#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collective.hpp"
#include "device_stream.hpp"
#include "endpoint.hpp"
#include "operation.hpp"
#include "own_messages.hpp"
#include "strata/communicator.hpp"
#include "worker.hpp"

namespace strata::gloo {

/// One rank's endpoint. A worker thread runs collectives, in the order in which they were started. Gloo's own thread
/// moves messages meanwhile.
class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(std::shared_ptr<Endpoint> endpoint, int rank, int rank_count, Device& device);
  /// Waits until the other ranks end too, so that no data in flight is lost. If communication is in flight on this
  /// rank, the run fails instead.
  ~GlooCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] int create_group(const std::vector<int>& ranks) override;
  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override;
  void abort(const std::string& reason) noexcept override;
  void check() override;

 private:
  [[nodiscard]] std::unique_ptr<Request> message(Operation::Kind kind, const MessageCall& call);
  /// Runs one collective on the worker.
  void run(const Operation& operation);
  /// Runs `work` on a worker, and completes `completion` with its error.
  void add(Worker& worker, const std::shared_ptr<Completion>& completion, std::function<void()> work);
  void say_goodbye();

  int rank_;
  int rank_count_;
  Device& device_;
  DeviceStream stream_{device_};
  std::shared_ptr<Endpoint> endpoint_;
  /// Tasks of the workers that have not ended.
  std::atomic<int> tasks_ = 0;
  std::vector<std::shared_ptr<CountedGroup>> groups_;
  std::map<std::vector<int>, std::shared_ptr<CountedGroup>> groups_by_ranks_;
  std::shared_ptr<OwnMessages> own_messages_ = std::make_shared<OwnMessages>();
  Staging staging_;
  std::shared_ptr<Worker> collectives_ = std::make_shared<Worker>();
  /// Posts messages whose data another stream still computes.
  Worker late_messages_;
};

}  // namespace strata::gloo

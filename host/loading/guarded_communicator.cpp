#include "loading/guarded_communicator.hpp"

#include <utility>

namespace strata::host {
namespace {

class GuardedRequest final : public Request {
 public:
  GuardedRequest(std::shared_ptr<Request> inner, const PluginOrigin& origin)
      : inner_(std::move(inner)), origin_(origin) {}

  void wait() override {
    run_plugin(origin_, "wait", [&] { inner_->wait(); });
  }

 private:
  std::shared_ptr<Request> inner_;
  /// Of the communicator, which outlives its requests.
  const PluginOrigin& origin_;
};

class GuardedCapture final : public CapturedCommunication {
 public:
  GuardedCapture(std::shared_ptr<CapturedCommunication> inner, const PluginOrigin& origin)
      : inner_(std::move(inner)), origin_(origin) {}

  void launched() override {
    run_plugin(origin_, "launched", [&] { inner_->launched(); });
  }

 private:
  std::shared_ptr<CapturedCommunication> inner_;
  const PluginOrigin& origin_;
};

class GuardedCommunicator final : public Communicator {
 public:
  GuardedCommunicator(std::shared_ptr<Communicator> inner, const PluginOrigin& origin)
      : inner_(std::move(inner)), origin_(origin) {}

  int rank() const override {
    return run_plugin(origin_, "rank", [&] { return inner_->rank(); });
  }
  int rank_count() const override {
    return run_plugin(origin_, "rank_count", [&] { return inner_->rank_count(); });
  }
  int create_group(const std::vector<int>& ranks) override {
    return run_plugin(origin_, "create_group", [&] { return inner_->create_group(ranks); });
  }
  std::unique_ptr<Request> start(const CollectiveCall& call) override {
    return request("start", [&] { return inner_->start(call); });
  }
  std::unique_ptr<Request> send(const MessageCall& call) override {
    return request("send", [&] { return inner_->send(call); });
  }
  std::unique_ptr<Request> receive(const MessageCall& call) override {
    return request("receive", [&] { return inner_->receive(call); });
  }
  void abort(const std::string& reason) noexcept override {
    const HookScope scope(origin_.lasting, "abort");
    inner_->abort(reason);
  }
  void check() override {
    run_plugin(origin_, "check", [&] { inner_->check(); });
  }
  std::optional<std::string> uncapturable() const override {
    return run_plugin(origin_, "uncapturable", [&] { return inner_->uncapturable(); });
  }
  std::unique_ptr<CapturedCommunication> capture(const std::function<void()>& communicate) override {
    return std::make_unique<GuardedCapture>(
        run_plugin_around(origin_, "capture", communicate, [&](const auto& noted) { return inner_->capture(noted); }),
        origin_);
  }
  void make_ready(const CommunicationPlan& plan) override {
    run_plugin(origin_, "make_ready", [&] { inner_->make_ready(plan); });
  }

 private:
  template <class Start>
  std::unique_ptr<Request> request(const char* hook, const Start& start) {
    return std::make_unique<GuardedRequest>(make_by_plugin(origin_, hook, start), origin_);
  }

  std::shared_ptr<Communicator> inner_;
  PluginOrigin origin_;
};

}  // namespace

std::unique_ptr<Communicator> guarded_communicator(std::shared_ptr<Communicator> communicator,
                                                   const PluginOrigin& origin) {
  if (communicator == nullptr) return nullptr;
  return std::make_unique<GuardedCommunicator>(std::move(communicator), origin);
}

}  // namespace strata::host

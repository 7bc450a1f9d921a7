#include <utility>

#include "runtime/flight_recorder.hpp"

namespace strata::host {
namespace {

using RecordedIssue = FlightRecorder::Issue;

/// Calls `work`. The recorder notes a failure before it passes on.
template <class Work>
auto noting_failure(FlightRecorder& recorder, std::uint64_t communication, const Work& work) {
  try {
    return work();
  } catch (...) {
    recorder.end_wait(communication, CommunicationState::failed);
    recorder.fail_with_current_exception();
    throw;
  }
}

class RecordedRequest final : public Request {
 public:
  RecordedRequest(std::unique_ptr<Request> inner, FlightRecorder& recorder, std::uint64_t communication,
                  CommunicationState end)
      : inner_(std::move(inner)), recorder_(recorder), communication_(communication), end_(end) {}

  void wait() override {
    recorder_.begin_wait(communication_);
    noting_failure(recorder_, communication_, [&] { inner_->wait(); });
    recorder_.end_wait(communication_, end_);
  }

 private:
  std::unique_ptr<Request> inner_;
  FlightRecorder& recorder_;
  std::uint64_t communication_;
  CommunicationState end_;
};

/// Communication in a graph of the device, which every launch of the graph issues again.
class RecordedCapture final : public CapturedCommunication {
 public:
  RecordedCapture(std::unique_ptr<CapturedCommunication> inner, FlightRecorder& recorder,
                  std::vector<RecordedIssue> issues)
      : inner_(std::move(inner)), recorder_(recorder), issues_(std::move(issues)) {}

  void launched() override {
    for (const RecordedIssue& issue : issues_) {
      recorder_.end_wait(recorder_.issue(issue), CommunicationState::enqueued);
    }
    noting_failure(recorder_, 0, [&] { inner_->launched(); });
  }

 private:
  std::unique_ptr<CapturedCommunication> inner_;
  FlightRecorder& recorder_;
  std::vector<RecordedIssue> issues_;
};

class RecordedCommunicator final : public Communicator {
 public:
  RecordedCommunicator(std::unique_ptr<Communicator> inner, FlightRecorder& recorder, bool ends_at_wait)
      : inner_(std::move(inner)),
        recorder_(recorder),
        end_(ends_at_wait ? CommunicationState::complete : CommunicationState::enqueued) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int rank_count() const override { return inner_->rank_count(); }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }
  [[nodiscard]] std::optional<std::string> uncapturable() const override { return inner_->uncapturable(); }

  [[nodiscard]] int create_group(const std::vector<int>& ranks) override {
    int group = -1;
    note_common_call("create_group", [&] { group = inner_->create_group(ranks); });
    recorder_.add_group(group, ranks);
    return group;
  }

  void make_ready(const CommunicationPlan& plan) override {
    note_common_call("make_ready", [&] { inner_->make_ready(plan); });
  }

  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override {
    const auto bytes = call.elements * static_cast<std::int64_t>(size_of(call.dtype));
    return issue({to_string(call.kind), call.name, call.group, -1, bytes, call.id},
                 [&] { return inner_->start(call); });
  }
  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override {
    return issue({"send", call.name, -1, call.peer, call.bytes, call.id}, [&] { return inner_->send(call); });
  }
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override {
    return issue({"receive", call.name, -1, call.peer, call.bytes, call.id}, [&] { return inner_->receive(call); });
  }

  void check() override {
    noting_failure(recorder_, 0, [&] { inner_->check(); });
    recorder_.complete_enqueued();
  }

  [[nodiscard]] std::unique_ptr<CapturedCommunication> capture(const std::function<void()>& communicate) override {
    captured_.clear();
    captures_ = true;
    try {
      auto captured = inner_->capture(communicate);
      captures_ = false;
      return std::make_unique<RecordedCapture>(std::move(captured), recorder_, std::move(captured_));
    } catch (...) {
      captures_ = false;
      throw;
    }
  }

 private:
  template <class Start>
  std::unique_ptr<Request> issue(const RecordedIssue& issue, const Start& start) {
    if (captures_) {
      captured_.push_back(issue);
      return start();
    }
    const std::uint64_t communication = recorder_.issue(issue);
    std::unique_ptr<Request> request = noting_failure(recorder_, communication, start);
    if (request == nullptr) return request;
    return std::make_unique<RecordedRequest>(std::move(request), recorder_, communication, end_);
  }

  /// Notes a call that returns when other ranks have made it too.
  void note_common_call(std::string_view kind, const std::function<void()>& call) {
    const std::uint64_t communication = recorder_.issue({.kind = kind});
    recorder_.begin_wait(communication);
    noting_failure(recorder_, communication, call);
    recorder_.end_wait(communication, CommunicationState::complete);
  }

  std::unique_ptr<Communicator> inner_;
  FlightRecorder& recorder_;
  CommunicationState end_;
  bool captures_ = false;
  std::vector<RecordedIssue> captured_;
};

}  // namespace

std::unique_ptr<Communicator> recorded(std::unique_ptr<Communicator> communicator, FlightRecorder& recorder,
                                       bool ends_at_wait) {
  return std::make_unique<RecordedCommunicator>(std::move(communicator), recorder, ends_at_wait);
}

}  // namespace strata::host

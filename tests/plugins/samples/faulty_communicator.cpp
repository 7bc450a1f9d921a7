#include <cstring>
#include <numeric>

#include "endings.hpp"
#include "strata/communicator.hpp"

namespace {

/// A communication that is done at once.
class FaultyRequest final : public strata::Request {
 public:
  explicit FaultyRequest(std::string fault) : fault_(std::move(fault)) {}
  ~FaultyRequest() override { endings::end_hook(fault_, "request destructor"); }
  FaultyRequest(const FaultyRequest&) = delete;
  FaultyRequest& operator=(const FaultyRequest&) = delete;
  void wait() override { endings::end_hook(fault_, "wait"); }

 private:
  std::string fault_;
};

/// A rank that believes that all ranks have what it has, and waits for none.
class FaultyCommunicator final : public strata::Communicator {
 public:
  FaultyCommunicator(std::string fault, int rank, int rank_count)
      : fault_(std::move(fault)), rank_(rank), rank_count_(rank_count) {}
  ~FaultyCommunicator() override { endings::end_hook(fault_, "destructor"); }
  FaultyCommunicator(const FaultyCommunicator&) = delete;
  FaultyCommunicator& operator=(const FaultyCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] int create_group(const std::vector<int>& /*ranks*/) override {
    endings::end_hook(fault_, "create_group");
    return 0;
  }
  [[nodiscard]] std::unique_ptr<strata::Request> start(const strata::CollectiveCall& call) override {
    endings::end_hook(fault_, "start");
    auto bytes = static_cast<std::size_t>(call.elements) * strata::size_of(call.dtype);
    if (call.kind == strata::CollectiveKind::reduce_scatter) bytes /= static_cast<std::size_t>(rank_count_);
    const bool gathers = call.kind == strata::CollectiveKind::all_gather;
    for (int i = 0; i < (gathers ? rank_count_ : 1); ++i) {
      std::memmove(static_cast<char*>(call.output) + static_cast<std::size_t>(i) * bytes, call.input, bytes);
    }
    return fault_ == "no request" ? nullptr : std::make_unique<FaultyRequest>(fault_);
  }
  [[nodiscard]] std::unique_ptr<strata::Request> send(const strata::MessageCall& /*call*/) override { return nullptr; }
  [[nodiscard]] std::unique_ptr<strata::Request> receive(const strata::MessageCall& /*call*/) override {
    return nullptr;
  }
  void abort(const std::string& /*reason*/) noexcept override { endings::end_hook(fault_, "abort"); }
  void check() override { endings::end_hook(fault_, "check"); }
  void make_ready(const strata::CommunicationPlan& /*plan*/) override { endings::end_hook(fault_, "make_ready"); }

 private:
  std::string fault_;
  int rank_;
  int rank_count_;
};

/// A world of ranks that are threads, with the fault that a test selects.
class FaultyWorld final : public strata::World {
 public:
  FaultyWorld(std::string fault, int rank_count) : fault_(std::move(fault)), rank_count_(rank_count) {}
  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] std::vector<int> local_ranks() const override {
    if (fault_ == "local_ranks") throw 42;
    std::vector<int> ranks(static_cast<std::size_t>(rank_count_));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  [[nodiscard]] int ranks_on_host() const override {
    if (fault_ == "ranks_on_host") throw 42;
    return World::ranks_on_host();
  }
  [[nodiscard]] strata::CommunicatorLimits limits() const override {
    if (fault_ == "limits") throw 42;
    return {};
  }
  [[nodiscard]] std::unique_ptr<strata::Communicator> connect(int rank, strata::Device& device) override {
    if (fault_ == "connect throws") throw 42;
    if (fault_ == "refuses the device") {
      throw strata::ConfigurationError("found '" + device.description() + "'; accepted: a GPU");
    }
    endings::end_hook(fault_, "connect");
    if (fault_ == "connect") return nullptr;
    return std::make_unique<FaultyCommunicator>(fault_, rank, rank_count_);
  }

 private:
  std::string fault_;
  int rank_count_;
};

class Factory final : public strata::CommunicatorFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<strata::World> create(const strata::Options& options, int rank_count) const override {
    if (options.word("fault") == "nothing") return nullptr;
    if (options.word("fault") == "refuses one rank" && rank_count == 1) {
      throw strata::ConfigurationError("found 1 rank; accepted: more");
    }
    if (rank_count % options.integer("threads") != 0) {
      throw strata::OptionError("threads", "found no divisor of the ranks");
    }
    return std::make_unique<FaultyWorld>(options.word("fault"), rank_count);
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "fault", .type = strata::OptionType::word, .default_value = "connect", .documentation = "The fault."},
      {.name = "threads",
       .type = strata::OptionType::integer,
       .default_value = std::int64_t{1},
       .documentation = "Divides the number of ranks.",
       .minimum = 1,
       .role = strata::OptionRole::ranks_per_process}};
};

}  // namespace

STRATA_PLUGIN(communicator, "faulty_communicator", "1.0.0", "Apache-2.0",
              "A communicator with the fault that it is asked for.", Factory);

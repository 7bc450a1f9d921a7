#include "strata/communicator.hpp"

namespace {

/// The world of one rank, with the fault that a test selects.
class FaultyWorld final : public strata::World {
 public:
  explicit FaultyWorld(std::string fault) : fault_(std::move(fault)) {}
  [[nodiscard]] int rank_count() const override { return 1; }
  [[nodiscard]] std::vector<int> local_ranks() const override {
    if (fault_ == "local_ranks") throw 42;
    return {0};
  }
  [[nodiscard]] int ranks_on_host() const override {
    if (fault_ == "ranks_on_host") throw 42;
    return World::ranks_on_host();
  }
  [[nodiscard]] strata::CommunicatorLimits limits() const override {
    if (fault_ == "limits") throw 42;
    return {};
  }
  [[nodiscard]] std::unique_ptr<strata::Communicator> connect(int /*rank*/, strata::Device& /*device*/) override {
    if (fault_ == "connect throws") throw 42;
    return nullptr;
  }

 private:
  std::string fault_;
};

class Factory final : public strata::CommunicatorFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<strata::World> create(const strata::Options& options,
                                                      int /*rank_count*/) const override {
    if (options.word("fault") == "nothing") return nullptr;
    return std::make_unique<FaultyWorld>(options.word("fault"));
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "fault", .type = strata::OptionType::word, .default_value = "connect", .documentation = "The fault."}};
};

}  // namespace

STRATA_PLUGIN(communicator, "faulty_communicator", "1.0.0", "Apache-2.0",
              "A communicator with the fault that it is asked for.", Factory);

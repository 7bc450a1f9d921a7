#include <numeric>

#include "strata/communicator.hpp"

namespace {

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
  [[nodiscard]] std::unique_ptr<strata::Communicator> connect(int /*rank*/, strata::Device& device) override {
    if (fault_ == "connect throws") throw 42;
    if (fault_ == "refuses the device") {
      throw strata::ConfigurationError("found '" + device.description() + "'; accepted: a GPU");
    }
    return nullptr;
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
    if (rank_count % options.integer("ranks_per_process") != 0) {
      throw strata::OptionError("ranks_per_process", "found no divisor of the ranks");
    }
    return std::make_unique<FaultyWorld>(options.word("fault"), rank_count);
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "fault", .type = strata::OptionType::word, .default_value = "connect", .documentation = "The fault."},
      {.name = "ranks_per_process",
       .type = strata::OptionType::integer,
       .default_value = std::int64_t{1},
       .documentation = "Divides the number of ranks.",
       .minimum = 1}};
};

}  // namespace

STRATA_PLUGIN(communicator, "faulty_communicator", "1.0.0", "Apache-2.0",
              "A communicator with the fault that it is asked for.", Factory);

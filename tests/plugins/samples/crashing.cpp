#include <cstdlib>

#include "sample.hpp"

namespace {

/// A strategy whose factory ends the process in the way that the option `end` names.
class CrashingFactory final : public strata::StrategyFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<strata::Strategy> create(const strata::Options& options) const override {
    if (options.word("end") == "signal") std::abort();
    if (options.word("end") == "exit") std::exit(3);
    return std::make_unique<SampleStrategy>(2);
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "end", .type = strata::OptionType::word, .default_value = "none", .documentation = "The end."}};
};

}  // namespace

STRATA_PLUGIN(strategy, "crashing", "1.2.3", "Apache-2.0", "A plugin that ends the process.", CrashingFactory);

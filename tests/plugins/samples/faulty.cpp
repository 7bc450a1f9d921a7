#include <stdexcept>

#include "doubled.hpp"
#include "sample.hpp"
#include "strata/registration.hpp"

namespace {

/// A strategy whose factory has the fault of the option `fault`.
class FaultyFactory final : public strata::StrategyFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

  void provide(strata::Registration& registration, const strata::Options& options) const override {
    const std::string& fault = options.word("fault");
    if (fault == "provides another version") registration.add(std::make_unique<Doubled>(2));
    if (fault == "provides no kernel") registration.add({.op = "doubled", .signature = {"t", "t"}, .prepare = {}});
    if (fault == "provides no op") registration.add(std::unique_ptr<strata::OpDefinition>());
    if (fault == "provides a number") throw 42;
  }

  [[nodiscard]] std::unique_ptr<strata::Strategy> create(const strata::Options& options) const override {
    const std::string& fault = options.word("fault");
    if (fault == "nothing") return nullptr;
    if (fault == "option") throw strata::OptionError("fault", "found a fault; accepted: none");
    if (fault == "another option") throw strata::OptionError("colour", "found a fault; accepted: none");
    if (fault == "configuration") throw strata::ConfigurationError("found no sense in this");
    if (fault == "number") throw 42;
    if (fault == "standard") throw std::out_of_range("too far");
    return std::make_unique<SampleStrategy>(2);
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "fault", .type = strata::OptionType::word, .default_value = "none", .documentation = "The fault."}};
};

}  // namespace

STRATA_PLUGIN(strategy, "faulty", "1.2.3", "Apache-2.0", "A plugin with the faults that it is asked for.",
              FaultyFactory);

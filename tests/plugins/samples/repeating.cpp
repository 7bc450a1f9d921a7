#include "sample.hpp"

namespace {

class RepeatingFactory final : public SampleFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

 private:
  strata::OptionSchema schema_ = {
      {.name = "size", .type = strata::OptionType::integer, .documentation = "Ranks along the axis."},
      {.name = "size", .type = strata::OptionType::integer, .default_value = 1, .documentation = "The same again."},
  };
};

}  // namespace

STRATA_PLUGIN(strategy, "repeating", "1.2.3", "Apache-2.0", "A plugin with two options of one name.", RepeatingFactory);

#include "sample.hpp"

namespace {

class NamelessFactory final : public SampleFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

 private:
  strata::OptionSchema schema_ = {
      {.name = "size", .type = strata::OptionType::integer, .documentation = "Ranks along the axis."},
      {.name = "", .type = strata::OptionType::integer, .default_value = 1, .documentation = "Which one?"},
  };
};

}  // namespace

STRATA_PLUGIN(strategy, "nameless", "1.2.3", "Apache-2.0", "A plugin with an option without a name.", NamelessFactory);

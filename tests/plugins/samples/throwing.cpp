#include "sample.hpp"

namespace {

class ThrowingFactory final : public SampleFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { throw 42; }
};

}  // namespace

STRATA_PLUGIN(strategy, "throwing", "1.2.3", "Apache-2.0", "A plugin that throws what is no exception.",
              ThrowingFactory);

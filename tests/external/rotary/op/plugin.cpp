#include "strata/plugin.hpp"

#include "op/kernels.hpp"
#include "op/rotary_op.hpp"
#include "strata/registration.hpp"

namespace {

class RotaryFactory final : public strata::LibraryFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

  void provide(strata::Registration& registration, const strata::Options& options) const override {
    registration.add(std::make_unique<rotary::RotaryOp>());
    registration.add(rotary::reference_kernel());
    if (options.boolean("host_kernel")) registration.add(rotary::host_kernel());
  }

 private:
  strata::OptionSchema schema_{{.name = "host_kernel",
                                .type = strata::OptionType::boolean,
                                .default_value = true,
                                .documentation = "Bring the fast kernel for host memory; without it the reference "
                                                 "kernel runs, for comparison."}};
};

}  // namespace

#ifdef ROTARY_WRONG_GRADIENT
STRATA_PLUGIN(library, "rotary_wrong", "1.0.0", "MIT", "The op rotary with a wrong gradient, for tests.",
              RotaryFactory);
#else
STRATA_PLUGIN(library, "rotary", "1.0.0", "MIT", "Rotary positions: the op rotary with its kernels.", RotaryFactory);
#endif

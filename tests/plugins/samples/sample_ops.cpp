#include <algorithm>

#include "doubled.hpp"
#include "strata/plugin.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace {

strata::reference::Work prepare_reference(const strata::OpInstance& op) {
  return [count = strata::reference::elements(op.results[0])](const strata::reference::Launch& launch) {
    for (std::int64_t i = 0; i < count; ++i) launch.result(0).set(i, 2 * launch.operand(0)[i]);
  };
}

strata::PreparedKernel prepare_fast(const strata::OpInstance& op, const strata::KernelEnvironment& /*environment*/) {
  const std::int64_t count = strata::kernels::elements(op.results[0]);
  return {[count](const strata::KernelArguments& arguments) {
    const auto* x = static_cast<const float*>(arguments.operands[0]);
    std::transform(x, x + count, static_cast<float*>(arguments.results[0]), [](float each) { return each + each; });
  }};
}

class Factory final : public strata::LibraryFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  void provide(strata::Registration& registration, const strata::Options& options) const override {
    registration.add(std::make_unique<Doubled>(1));
    registration.add(strata::reference::kernel({"doubled", "t", "t", prepare_reference}));
    if (!options.boolean("fast")) return;
    registration.add({.op = "doubled", .signature = {"t", "t", false, {strata::DType::f32}}, .prepare = prepare_fast});
  }

 private:
  strata::OptionSchema schema_ = {{.name = "fast",
                                   .type = strata::OptionType::boolean,
                                   .default_value = true,
                                   .documentation = "Bring the fast kernel too."}};
};

}  // namespace

STRATA_PLUGIN(library, "sample_ops", "1.0.0", "Apache-2.0", "An op with two kernels.", Factory);

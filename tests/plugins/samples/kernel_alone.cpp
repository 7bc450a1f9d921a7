#include "strata/plugin.hpp"
#include "strata/registration.hpp"

namespace {

strata::PreparedKernel prepare(const strata::OpInstance& /*op*/, const strata::KernelEnvironment& /*environment*/) {
  return {[](const strata::KernelArguments&) {}};
}

class Factory final : public strata::LibraryFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  void provide(strata::Registration& registration, const strata::Options& /*options*/) const override {
    registration.add({.op = "doubled", .signature = {"t", "t"}, .prepare = prepare});
  }

 private:
  strata::OptionSchema schema_;
};

}  // namespace

STRATA_PLUGIN(library, "kernel_alone", "1.0.0", "Apache-2.0", "A kernel for the op of another plugin.", Factory);

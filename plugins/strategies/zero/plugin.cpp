#include "zero.hpp"

namespace {

using namespace strata;

class ZeroFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return zero::schema(); }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<zero::Zero>(zero::read_settings(options));
  }
};

}  // namespace

STRATA_PLUGIN(strategy, "zero", "0.1.0", "Apache-2.0",
              "ZeRO and FSDP: optimizer states, gradients and parameters sharded over the ranks that share the batch.",
              ZeroFactory);

#include "compress.hpp"
#include "exchange_ops.hpp"

namespace {

using namespace strata;

class CompressFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return compress::schema(); }
  void provide(Registration& registration, const Options& /*options*/) const override {
    compress::register_ops(registration);
    compress::register_reference_kernels(registration);
    compress::register_host_kernels(registration);
  }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<compress::Compress>(compress::read_settings(options));
  }
};

}  // namespace

STRATA_PLUGIN(strategy, "compress", "0.1.0", "Apache-2.0",
              "Compressed gradients over slow links: PowerSGD and top-k with error feedback.", CompressFactory);

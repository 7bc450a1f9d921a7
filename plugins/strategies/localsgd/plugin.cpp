#include "local_sgd.hpp"

namespace {

using namespace strata;

class LocalSgdFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return localsgd::schema(); }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<localsgd::LocalSgd>(localsgd::read_settings(options));
  }
};

}  // namespace

STRATA_PLUGIN(strategy, "localsgd", "0.1.0", "Apache-2.0",
              "Local SGD and DiLoCo: replicas train apart and take outer steps together.", LocalSgdFactory);

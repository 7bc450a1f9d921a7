#include "lora.hpp"
#include "settings.hpp"

namespace {

using namespace strata;

class LoraFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return lora::schema(); }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<lora::Lora>(lora::read_settings(options));
  }
  [[nodiscard]] bool changes_model() const override { return true; }
};

}  // namespace

STRATA_PLUGIN(strategy, "lora", "0.1.0", "Apache-2.0",
              "Low-rank adapters: trains two small matrices beside each frozen one.", LoraFactory);

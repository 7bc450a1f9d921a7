#include "lora.hpp"
#include "settings.hpp"
#include "strata/peft.hpp"

namespace {

using namespace strata;

class LoraFactory final : public AdapterFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return lora::schema(); }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<lora::Lora>(lora::read_settings(options));
  }
  [[nodiscard]] bool changes_model() const override { return true; }
  [[nodiscard]] std::map<std::string, OptionValue> adapter_options(const PeftAdapters& adapters) const override {
    return {{"rank", adapters.rank},
            {"alpha", adapters.scale * static_cast<double>(adapters.rank)},
            {"targets", adapters.parameters},
            {"dropout", adapters.dropout}};
  }
};

}  // namespace

STRATA_PLUGIN(strategy, "lora", "0.1.0", "Apache-2.0",
              "Low-rank adapters: trains two small matrices beside each frozen one.", LoraFactory);

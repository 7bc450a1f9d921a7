#include "endings.hpp"
#include "sample.hpp"

namespace {

/// A strategy that ends in the hook and in the way that the option `fault` names.
class Crashing final : public strata::Strategy {
 public:
  explicit Crashing(std::string fault) : fault_(std::move(fault)) {}
  ~Crashing() override { endings::end_hook(fault_, "destructor"); }
  Crashing(const Crashing&) = delete;
  Crashing& operator=(const Crashing&) = delete;

  [[nodiscard]] std::vector<strata::MeshAxis> axes() const override {
    endings::end_hook(fault_, "axes");
    return {{"sample", 1}};
  }
  [[nodiscard]] std::vector<strata::Rule> rules() const override {
    endings::end_hook(fault_, "rules");
    return {{.dim = "batch", .axis = "sample", .filter = {}}};
  }

 private:
  std::string fault_;
};

class CrashingFactory final : public strata::StrategyFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<strata::Strategy> create(const strata::Options& options) const override {
    endings::end_hook(options.word("fault"), "create");
    return std::make_unique<Crashing>(options.word("fault"));
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "fault", .type = strata::OptionType::word, .default_value = "none", .documentation = "The end."}};
};

}  // namespace

STRATA_PLUGIN(strategy, "crashing", "1.2.3", "Apache-2.0", "A plugin that ends the process.", CrashingFactory);

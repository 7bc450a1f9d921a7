#include "strata/plugin.hpp"

#include "precision.hpp"

namespace {

using namespace strata;
using precision::Settings;

OptionSpecification word(const std::string& name, const std::string& fallback, const std::string& documentation,
                         std::vector<std::string> choices) {
  return option::word(name, fallback, documentation, std::move(choices));
}

OptionSpecification number(const std::string& name, double fallback, double minimum, double maximum,
                           const std::string& documentation) {
  return option::number(name, fallback, minimum, maximum, documentation);
}

class PrecisionFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    Settings settings;
    const std::string& compute = options.word("compute");
    settings.compute = compute == "fp16" ? DType::f16 : dtype_from_string(compute);
    if (options.word("reduce") == "bf16") settings.reduce = DType::bf16;
    std::string scaling = options.word("loss_scale");
    if (scaling == "auto") scaling = settings.compute == DType::f16 ? "dynamic" : "off";
    if (scaling != "off") {
      LossScaling& loss = settings.loss_scaling.emplace();
      loss.initial = options.number("initial_scale");
      loss.dynamic = scaling == "dynamic";
      loss.growth = options.number("growth_factor");
      loss.backoff = options.number("backoff_factor");
      loss.interval = static_cast<int>(options.integer("growth_interval"));
    }
    return std::make_unique<precision::MixedPrecision>(settings);
  }

 private:
  OptionSchema schema_{
      word("compute", "bf16", "Type of matrix products, attention and activations, also of those between blocks.",
           {"bf16", "fp16", "f32"}),
      word("reduce", "f32",
           "Type in which gradients of parameters in the compute type are accumulated over micro-batches and reduced "
           "over ranks.",
           {"f32", "bf16"}),
      word("loss_scale", "auto",
           "How the loss, and with it every gradient, is scaled: auto is dynamic for fp16 and off for the others.",
           {"auto", "off", "static", "dynamic"}),
      number("initial_scale", 65536, 1, 0x1p40,
             "The static scale of the mean loss, or the first value of a dynamic one."),
      number("growth_factor", 2, 1, 1024, "Multiplies a dynamic scale after growth_interval good steps."),
      number("backoff_factor", 0.5, 0.001, 0.999,
             "Multiplies a dynamic scale after a step whose gradient was not finite."),
      option::integer("growth_interval", 2000, 1, 1e9, "Good steps in a row after which a dynamic scale grows.")};
};

}  // namespace

STRATA_PLUGIN(strategy, "precision", "0.1.0", "Apache-2.0",
              "Mixed precision: bf16 or fp16 compute, f32 master weights and reductions, loss scaling.",
              PrecisionFactory);

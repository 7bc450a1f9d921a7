#include <algorithm>
#include <optional>

#include "mixed_types.hpp"
#include "strata/error.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace precision {
namespace {

using namespace strata;

bool has_parameter_of(const Graph& graph, bool (*holds)(DType)) {
  return std::any_of(graph.parameters.begin(), graph.parameters.end(),
                     [&](const Parameter& parameter) { return holds(graph.type(parameter.value).dtype); });
}

bool is_f64(DType type) { return type == DType::f64; }
bool is_short(DType type) { return is_floating_point(type) && size_of(type) < size_of(DType::f32); }

/// The plugin's options.
struct Settings {
  DType compute = DType::bf16;
  /// Type in which gradients are accumulated and reduced. Empty: f32.
  std::optional<DType> reduce;
  std::optional<LossScaling> loss_scaling;
};

/// Mixed precision (Micikevicius et al., "Mixed Precision Training", ICLR 2018). Matrix products, attention and
/// activations use a short type. Normalisation, loss, sums of gradients and the optimizer use f32.
class MixedPrecision final : public Strategy {
 public:
  explicit MixedPrecision(const Settings& settings) : settings_(settings) {}

  /// Assigns types. In an f64 graph it only sets up loss scaling.
  void rewrite_forward(Graph& graph, const OpRegistry& registry) const override {
    if (graph.loss_scaling && settings_.loss_scaling) {
      throw ConfigurationError("a strategy before this one scales the loss already; set loss_scale = \"off\" in one");
    }
    if (settings_.loss_scaling) graph.loss_scaling = settings_.loss_scaling;
    if (has_parameter_of(graph, is_f64)) return;
    if (has_parameter_of(graph, is_short)) {
      throw ConfigurationError("parameters have a type shorter than f32 already; one strategy chooses types");
    }
    mix_types(graph, registry, settings_.compute, settings_.reduce);
  }

 private:
  Settings settings_;
};

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
    return std::make_unique<MixedPrecision>(settings);
  }

 private:
  OptionSchema schema_{
      option::word("compute", "bf16",
                   "Type of matrix products, attention and activations, also of those between blocks.",
                   {"bf16", "fp16", "f32"}),
      option::word(
          "reduce", "f32",
          "Type in which gradients of parameters in the compute type are accumulated over micro-batches and reduced "
          "over ranks.",
          {"f32", "bf16"}),
      option::word(
          "loss_scale", "auto",
          "How the loss, and with it every gradient, is scaled: auto is dynamic for fp16 and off for the others.",
          {"auto", "off", "static", "dynamic"}),
      option::number("initial_scale", 65536, 1, 0x1p40,
                     "The static scale of the mean loss, or the first value of a dynamic one."),
      option::number("growth_factor", 2, 1, 1024, "Multiplies a dynamic scale after growth_interval good steps."),
      option::number("backoff_factor", 0.5, 0.001, 0.999,
                     "Multiplies a dynamic scale after a step whose gradient was not finite."),
      option::integer("growth_interval", 2000, 1, 1e9, "Good steps in a row after which a dynamic scale grows.")};
};

}  // namespace
}  // namespace precision

STRATA_PLUGIN(strategy, "precision", "0.1.0", "Apache-2.0",
              "Mixed precision: bf16 or fp16 compute, f32 master weights and reductions, loss scaling.",
              precision::PrecisionFactory);

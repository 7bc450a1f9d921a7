#include "compress.hpp"

#include <cstdint>
#include <string>

#include "strata/error.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace compress {
namespace {

using namespace strata;

enum class Method : std::uint8_t { power_sgd, top_k };

/// The plugin's options.
struct Settings {
  std::string axis;
  int size = 1;
  Method method = Method::power_sgd;
  /// PowerSGD: columns of the two factors.
  std::int64_t rank = 1;
  /// Top-k: share of the elements of a piece that are exchanged.
  double density = 0.01;
  /// Parameters with fewer elements are summed exactly.
  std::int64_t smallest = 0;
};

constexpr std::int64_t kRank = 4;
constexpr double kDensity = 0.01;

/// The other method would ignore the option.
OptionError misplaced(const std::string& option, const std::string& found, const std::string& method) {
  return {option, "found " + found + " beside method = \"" + method + "\"; accepted: only with the other method"};
}

OptionSchema option_schema() {
  return {
      option::axis_size("Ranks along the axis: workers that exchange compressed gradients."),
      option::axis_name("compressed"),
      option::word("method", "powersgd",
                   "powersgd exchanges two factors of low rank for each matrix, topk its largest elements.",
                   {"powersgd", "topk"}),
      option::integer("rank", kRank, 1, 1024,
                      "powersgd: columns of the factors. A matrix whose factors are not smaller than itself is summed "
                      "exactly."),
      option::number("density", kDensity, 1e-6, 1,
                     "topk: the share of the elements of each rank's piece of a parameter that is exchanged."),
      {.name = "smallest",
       .type = OptionType::integer,
       .default_value = OptionValue(std::int64_t{0}),
       .documentation = "Gradients of parameters with fewer elements are summed exactly.",
       .minimum = 0}};
}

Settings read_settings(const Options& options) {
  Settings settings;
  settings.axis = options.word("axis");
  settings.size = static_cast<int>(options.integer("size"));
  settings.method = options.word("method") == "topk" ? Method::top_k : Method::power_sgd;
  settings.rank = options.integer("rank");
  settings.density = options.number("density");
  settings.smallest = options.integer("smallest");
  const std::string& method = options.word("method");
  if (settings.method == Method::top_k && settings.rank != kRank) {
    throw misplaced("rank", std::to_string(settings.rank), method);
  }
  if (settings.method == Method::power_sgd && settings.density != kDensity) {
    throw misplaced("density", to_string(OptionValue(settings.density)), method);
  }
  return settings;
}

/// Data parallelism over slow links: workers along the axis exchange compressed gradients. What compression loses is
/// kept, and added to the next gradient (error feedback), so that in the sum over steps nothing is lost.
class Compress final : public Strategy, public GradientHooks {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit Compress(const Options& options) : settings_(read_settings(options)) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {{settings_.axis, settings_.size}}; }
  [[nodiscard]] std::vector<Rule> rules() const override {
    return {{"batch", settings_.axis, 20, Distribution::block, {}}};
  }
  [[nodiscard]] std::vector<Axis> self_reduced_axes() const override { return {settings_.axis}; }
  /// Rounding decides which of two elements near the threshold of topk is sent, and an optimizer that gives all
  /// directions of a matrix the same length, such as muon, turns that into a step of full size.
  [[nodiscard]] double gradient_error() const override { return settings_.method == Method::top_k ? 0.5 : 0; }
  [[nodiscard]] bool wants_own_bucket(const ParameterDescription& parameter) const override {
    return settings_.size > 1 && is_compressed(parameter, parameter.elements);
  }

  void reduce_gradient(ReductionContext& context) const override {
    const ParameterDescription* parameter = context.parameter();
    if (parameter == nullptr || !is_compressed(*parameter, context.elements())) {
      return GradientHooks::reduce_gradient(context);
    }
    if (settings_.method == Method::top_k) {
      emit_reduction(TopK{settings_.density}, context);
    } else {
      emit_reduction(PowerSgd{settings_.rank}, context);
    }
  }

  void define_gradient(DefinedGradient& gradient) const override {
    // All pieces of a parameter have the same size. Those of a parameter without a bucket of its own hold others too.
    if (!wants_own_bucket(gradient.parameter) || !is_compressed(gradient.parameter, gradient.pieces.front().size)) {
      return GradientHooks::define_gradient(gradient);
    }
    if (settings_.method == Method::top_k) {
      define_reduction(TopK{settings_.density}, gradient);
    } else {
      define_reduction(PowerSgd{settings_.rank}, gradient);
    }
  }

 private:
  /// Biases and the weights of norms, which neither decay nor stand in a product, are small and have no second side.
  [[nodiscard]] bool is_compressed(const ParameterDescription& parameter, std::int64_t piece) const {
    const bool is_matrix = parameter.decay || !parameter.contracted.empty();
    if (!is_matrix || parameter.elements < settings_.smallest) return false;
    return settings_.method == Method::top_k ? shrinks(TopK{settings_.density}, piece, settings_.size)
                                             : shrinks(PowerSgd{settings_.rank}, parameter, piece);
  }

  Settings settings_;
};

class CompressFactory final : public FactoryOf<StrategyFactory, Compress> {
 public:
  void provide(Registration& registration, const Options& /*options*/) const override {
    register_ops(registration);
    register_reference_kernels(registration);
    register_host_kernels(registration);
  }
};

}  // namespace
}  // namespace compress

STRATA_PLUGIN(strategy, "compress", "0.1.0", "Apache-2.0",
              "Compressed gradients over slow links: PowerSGD and top-k with error feedback.",
              compress::CompressFactory);

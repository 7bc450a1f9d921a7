#include "compress.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "strata/error.hpp"
#include "strata/op.hpp"
#include "strata/plugin.hpp"
#include "strata/random.hpp"
#include "strata/strategy.hpp"

namespace compress {

using namespace strata;

double first_basis(const std::string& parameter, std::int64_t index) {
  return random::normal(random::stream_key(0, "power_sgd/" + parameter, 0), static_cast<std::uint64_t>(index));
}

namespace {

void register_ops(Registration& registration) {
  const auto add = [&](const char* name, const char* documentation, FlatSignature signature) {
    signature.has_own_sizes = true;
    registration.add(std::make_unique<FlatOp>(name, documentation, std::move(signature)));
  };
  add(kAddError, "gradient, error, unit [] f64 -> sum: unit · gradient + error.", {.inputs = 3});
  add(kLeft,
      "matrix, Q -> P: the product of this rank's piece of a matrix with Q, which has `rank` columns one after "
      "another. "
      "Columns of Q that are zero are random instead (attributes rank; parameter, its name; dims, rows, columns).",
      {.inputs = 2});
  add(kOrthonormal, "P -> P (attribute rank): its columns, orthonormal. A column that depends on earlier ones is zero.",
      {.inputs = 1});
  add(kRight, "matrix, P -> Q: the product of the transposed matrix with P (attributes rank, dims, rows, columns).",
      {.inputs = 2});
  add(kProduct, "P, Q, unit [] f64 -> gradient: P Qᵀ / unit (attributes rank, dims, rows, columns). 0 if unit is 0.",
      {.inputs = 3});
  add(kPowerStates,
      "matrix, scale [] f64, P, own Q, Q -> error, basis: error = matrix - P (own Q)ᵀ, basis = Q. Both stay if scale "
      "is "
      "0 or not finite (attributes rank, dims, rows, columns).",
      {.inputs = 5, .outputs = 0, .states = {kError, kBasis}});
  add(kSelect,
      "x -> indices i32, values: the elements with the largest magnitudes, as many as the results have, in ascending "
      "order of indices. Of equal magnitudes the first ones.",
      {.inputs = 1, .outputs = 2});
  add(kScatter,
      "indices i32, values, unit [] f64 -> gradient: zeros, to which value / unit is added at each index. 0 if unit is "
      "0.",
      {.inputs = 3});
  add(kTopStates,
      "x, scale [] f64, indices i32 -> error: x with zeros at the indices. It stays if scale is 0 or not finite.",
      {.inputs = 3, .outputs = 0, .states = {kError}});
}

/// The plugin's options.
struct Settings {
  std::string axis;
  int size = 1;
  std::variant<PowerSgd, TopK> method;
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
  settings.smallest = options.integer("smallest");
  const std::string& method = options.word("method");
  const std::int64_t rank = options.integer("rank");
  const double density = options.number("density");
  if (method == "topk") {
    settings.method = TopK{density};
    if (rank != kRank) throw misplaced("rank", std::to_string(rank), method);
  } else {
    settings.method = PowerSgd{rank};
    if (density != kDensity) throw misplaced("density", to_string(OptionValue(density)), method);
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
  [[nodiscard]] double gradient_error() const override {
    return std::holds_alternative<TopK>(settings_.method) ? 0.5 : 0;
  }
  [[nodiscard]] bool wants_own_bucket(const ParameterDescription& parameter) const override {
    return settings_.size > 1 && is_compressed(parameter, parameter.elements);
  }

  void reduce_gradient(ReductionContext& context) const override {
    const ParameterDescription* parameter = context.parameter();
    if (parameter == nullptr || !is_compressed(*parameter, context.elements())) {
      return GradientHooks::reduce_gradient(context);
    }
    std::visit([&](const auto& method) { emit_reduction(method, context); }, settings_.method);
  }

  void define_gradient(DefinedGradient& gradient) const override {
    // All pieces of a parameter have the same size. Those of a parameter without a bucket of its own hold others too.
    if (!wants_own_bucket(gradient.parameter) || !is_compressed(gradient.parameter, gradient.pieces.front().size)) {
      return GradientHooks::define_gradient(gradient);
    }
    std::visit([&](const auto& method) { define_reduction(method, gradient); }, settings_.method);
  }

 private:
  /// Biases and the weights of norms, which neither decay nor stand in a product, are small and have no second side.
  [[nodiscard]] bool is_compressed(const ParameterDescription& parameter, std::int64_t piece) const {
    const bool is_matrix = parameter.decay || !parameter.contracted.empty();
    if (!is_matrix || parameter.elements < settings_.smallest) return false;
    const auto shrinks_piece = [&](const auto& method) { return shrinks(method, parameter, piece, settings_.size); };
    return std::visit(shrinks_piece, settings_.method);
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

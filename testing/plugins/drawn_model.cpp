/// drawn: a model whose graph is drawn from its seed, so that stacks meet graphs that are no GPT.

#include <memory>
#include <numeric>

#include "drawn_graph.hpp"
#include "strata/model.hpp"
#include "strata/op.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace drawn {
namespace {

using namespace strata;

constexpr const char* kFoldedGradient = "folded_gradient";

class Folded final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return kFolded; }
  [[nodiscard]] std::string documentation() const override { return "x -> x / (1 + x · x), element by element."; }

  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }

  [[nodiscard]] GradientRule gradient() const override {
    return [](GradientContext& context) {
      const Value dy = *context.cotangent(0);
      context.contribute(0, context.emit(0, kFoldedGradient, {dy, context.operand(0)}, {})[0]);
    };
  }

  [[nodiscard]] std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
};

class FoldedGradient final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return kFoldedGradient; }
  [[nodiscard]] std::string documentation() const override { return "dy, x -> dy · (1 - x · x) / (1 + x · x)²."; }

  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(1))};
  }
};

reference::Work define_folded(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const reference::Launch& launch) {
    const reference::Reader x = launch.operand(0);
    for (std::int64_t i = 0; i < count; ++i) launch.result(0).set(i, x[i] / (1 + x[i] * x[i]));
  };
}

reference::Work define_folded_gradient(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const reference::Launch& launch) {
    const reference::Reader dy = launch.operand(0);
    const reference::Reader x = launch.operand(1);
    for (std::int64_t i = 0; i < count; ++i) {
      const double square = x[i] * x[i];
      launch.result(0).set(i, dy[i] * (1 - square) / ((1 + square) * (1 + square)));
    }
  };
}

/// Registers the op, its gradient and their reference kernels.
void register_folded(Registration& registration) {
  registration.add(std::make_unique<Folded>());
  registration.add(std::make_unique<FoldedGradient>());
  registration.add(reference::kernel({kFolded, "r", "r", define_folded}));
  registration.add(reference::kernel({kFoldedGradient, "rr", "r", define_folded_gradient}));
}

/// Sizes that a power of two does not divide.
constexpr std::int64_t kWide = 6;
constexpr std::int64_t kAlphabet = 7;

class DrawnModel final : public Model {
 public:
  explicit DrawnModel(const DrawnSettings& settings) : settings_(settings) {}

  [[nodiscard]] DimSizes sizes() const override {
    return {
        {"seq", settings_.context}, {"letter", settings_.letters}, {"vocab", settings_.vocab}, {"alphabet", kAlphabet}};
  }

  void build(GraphBuilder& builder) const override {
    builder.define_dim("embed", settings_.embed);
    builder.define_dim("heads", settings_.heads);
    builder.define_dim("head_dim", settings_.embed / settings_.heads);
    builder.define_dim("wide", kWide);
    append_drawn_graph(builder, settings_);
  }

 private:
  DrawnSettings settings_;
};

class DrawnFactory final : public ModelFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  void provide(Registration& registration, const Options& /*options*/) const override { register_folded(registration); }

  [[nodiscard]] std::unique_ptr<Model> create(const Options& options) const override {
    return std::make_unique<DrawnModel>(DrawnSettings{.seed = options.integer("seed"),
                                                      .blocks = options.integer("layers"),
                                                      .heads = options.integer("heads"),
                                                      .embed = options.integer("embed"),
                                                      .context = options.integer("context"),
                                                      .letters = options.integer("letters"),
                                                      .vocab = options.integer("vocab"),
                                                      .dropout = options.number("dropout")});
  }

  /// The graph stays: it is small, and another number of blocks would be another graph.
  [[nodiscard]] Options shrink(const Options& options, const ShrinkRequest& request) const override {
    Options small = options;
    const auto fit = [&](const char* option, const Dim& dim) {
      const auto found = request.multiples.find(dim);
      if (found == request.multiples.end()) return;
      small.set(option, OptionValue(std::lcm(options.integer(option), found->second)));
    };
    fit("context", "seq");
    fit("letters", "letter");
    fit("vocab", "vocab");
    fit("heads", "heads");
    fit("embed", "embed");
    small.set("embed", OptionValue(std::lcm(small.integer("embed"), small.integer("heads"))));
    return small;
  }

 private:
  static OptionSpecification count(const std::string& name, std::int64_t value, const std::string& documentation) {
    return {.name = name,
            .type = OptionType::integer,
            .default_value = value,
            .documentation = documentation,
            .minimum = name == "seed" ? 0 : 1};
  }

  OptionSchema schema_{count("seed", 0, "The seed of the graph."),
                       count("layers", 4, "Blocks between the embeddings and the head."),
                       count("heads", 2, "Heads of attention."),
                       count("embed", 8, "Width of both streams."),
                       count("context", 8, "Elements of a target."),
                       count("letters", 5, "Elements of a source."),
                       count("vocab", 16, "Different elements of a target."),
                       {.name = "dropout",
                        .type = OptionType::number,
                        .default_value = 0.1,
                        .documentation = "Probability of dropout.",
                        .minimum = 0,
                        .maximum = 0.9}};
};

}  // namespace
}  // namespace drawn

STRATA_PLUGIN(model, "drawn", "1.0.0", "Apache-2.0", "A graph that is drawn from a seed.", drawn::DrawnFactory);

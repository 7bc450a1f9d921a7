/// feedback: data parallelism that sends gradients in bf16 and adds what it rounded off to the next gradient.

#include "exchange.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"
#include "strata/strategy.hpp"

namespace feedback {
namespace {

using namespace strata;

constexpr const char* kAxis = "workers";

class Feedback final : public Strategy, public GradientHooks {
 public:
  explicit Feedback(int size) : size_(size) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {{kAxis, size_}}; }
  [[nodiscard]] std::vector<Rule> rules() const override { return {{"batch", kAxis, 20, Distribution::block, {}}}; }

  /// The host sums no gradients over this axis. reduce_gradient() does.
  [[nodiscard]] std::vector<Axis> self_reduced_axes() const override { return {kAxis}; }

  /// Once per bucket of gradients, at the end of a step.
  void reduce_gradient(ReductionContext& context) const override {
    // A rank alone on the axis sends nothing.
    if (context.axes().empty()) return GradientHooks::reduce_gradient(context);
    const auto flat = [&](const char* name, DType dtype, std::int64_t elements) {
      return context.add_flat(context.label() + " " + name, dtype, elements);
    };
    const std::int64_t count = context.elements();
    const BufferId error = context.add_state({.name = kError, .is_of_worker = true});
    const BufferId sum = flat("sum", context.dtype(), count);
    const BufferId sent = flat("sent", DType::bf16, count);
    const BufferId all = flat("sent by all", DType::bf16, count * context.mesh().size(context.axes()));
    context.emit(context.flat(kRound, "round", {context.gradient(), error, context.unit()}, {sum, sent}, {}));
    const std::string label = context.label() + " all_gather " + join(context.axes(), "+");
    context.emit({.name = label,
                  .work = Collective{.kind = CollectiveKind::all_gather,
                                     .axes = context.axes(),
                                     .id = context.communication_id(label)},
                  .inputs = {sent},
                  .outputs = {all}});
    context.emit(context.flat(kSum, "sum", {all, context.unit()}, {context.gradient()}, {}));
    // Only now is it known whether this step applies the gradient.
    context.emit_after(context.flat(kKeep, "keep", {sum, sent, context.scale()}, {error}, {}));
  }

  /// The same for one whole parameter in plain code.
  void define_gradient(DefinedGradient& gradient) const override {
    for (std::size_t worker = 0; worker < gradient.shares.size(); ++worker) {
      std::vector<double>& error = gradient.states["error of worker " + std::to_string(worker)];
      error.resize(gradient.gradient.size());
      for (std::size_t i = 0; i < error.size(); ++i) {
        const double sum = gradient.shares[worker][i] + error[i];
        const double sent = from_bf16(to_bf16(static_cast<float>(sum)));
        gradient.gradient[i] += sent;
        error[i] = sum - sent;
      }
    }
  }

 private:
  int size_;
};

class FeedbackFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  void provide(Registration& registration, const Options& /*options*/) const override {
    register_exchange(registration);
  }

  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<Feedback>(static_cast<int>(options.integer("size")));
  }

 private:
  OptionSchema schema_{option::axis_size("Ranks along the axis 'workers'.")};
};

}  // namespace
}  // namespace feedback

STRATA_PLUGIN(strategy, "feedback", "1.0.0", "MIT", "Gradients in bf16 with error feedback.",
              feedback::FeedbackFactory);

#include <stdexcept>

#include "endings.hpp"
#include "strata/optimizer.hpp"

namespace {

using namespace strata;

/// Gradient descent, with the fault that a test selects.
class FaultyOptimizer final : public Optimizer {
 public:
  explicit FaultyOptimizer(std::string fault) : fault_(std::move(fault)) {}
  ~FaultyOptimizer() override { endings::end_hook(fault_, "destructor"); }
  FaultyOptimizer(const FaultyOptimizer&) = delete;
  FaultyOptimizer& operator=(const FaultyOptimizer&) = delete;

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& parameter) const override {
    if (fault_ == "states throws") throw 42;
    if (fault_ == "takes the master") return {{"master"}};
    if (fault_ == "twice the same") return {{"mean"}, {"mean"}};
    if (fault_ == "unchanged state") return {{"mean"}};
    if (fault_ == "shared with dims") return {{"mean", parameter.dims}};
    if (fault_ == "unknown dims") return {{"mean", Dims{"height"}}};
    if (fault_ == "shared of whole" || fault_.starts_with("state of whole")) {
      return {{.name = "mean", .is_of_whole = true}};
    }
    return {};
  }
  [[nodiscard]] bool wants_own_bucket() const override {
    return fault_ == "unknown dims" || fault_ == "second whole" || fault_ == "whole of another shape" ||
           fault_.starts_with("state of whole");
  }
  [[nodiscard]] std::optional<std::string> refusal(const ParameterDescription& parameter) const override {
    if (fault_ == "refusal throws") throw std::out_of_range("too far");
    if (fault_ != "refuses matrices" || parameter.dims.size() == 1) return std::nullopt;
    return "it has " + std::to_string(parameter.dims.size()) + " dimensions; accepted: 1";
  }
  void update(UpdateContext& context) const override {
    endings::end_hook(fault_, "update");
    if (fault_ == "update throws") throw 42;
    if (fault_ == "no update") return;
    if (fault_ == "no such op") return context.update("descend", {});
    if (fault_ == "no update op") return context.update("accumulate", {});
    if (fault_ == "unknown state") static_cast<void>(context.state("mean"));
    if (fault_ == "whole of a bucket") context.on_whole(context.gradient(), {}, copy);
    if (fault_ == "whole of another shape") context.on_whole(context.gradient(), {}, sum);
    if (fault_ == "second whole") context.on_whole(context.on_whole(context.gradient(), {}, copy), {}, copy);
    if (fault_ == "state of whole, unchanged") context.on_whole(context.gradient(), {}, copy);
    if (fault_ == "state of whole, never") context.on_whole(context.gradient(), {}, change_never);
    if (fault_ == "state of whole, transient") {
      const BufferId direction = context.on_whole(context.gradient(), {}, read_transient);
      return context.update("sgd_update", {}, UpdateOperands{.direction = direction});
    }
    if (fault_ == "no piece") return context.update("sgd_update", {}, UpdateOperands{.direction = context.scale()});
    context.update("sgd_update", {});
    if (fault_ == "two updates") context.update("sgd_update", {});
  }
  void define(DefinedUpdate& update) const override {
    if (fault_ == "define throws") throw 42;
    if (fault_ == "define shrinks") return update.values.clear();
    const double factor = fault_ == "wrong definition" ? 2 : 1;
    for (std::size_t i = 0; i < update.values.size(); ++i) {
      update.values[i] -= update.learning_rate * (factor * update.gradient[i] + update.weight_decay * update.values[i]);
    }
  }

 private:
  static NamedBuffer copy(WholeContext& context, const NamedBuffer& direction) {
    return context.emit("weighted_sum", {direction, direction}, direction.dims, {{"factor0", 1.0}, {"factor1", 0.0}});
  }
  static NamedBuffer sum(WholeContext& context, const NamedBuffer& direction) {
    return context.emit("linear", {direction, direction}, {}, {{"result", ""}});
  }

  /// Changes the state every 0 steps.
  static NamedBuffer change_never(WholeContext& context, const NamedBuffer& direction) {
    context.every(0, [&] { context.change_state("mean", direction); });
    return copy(context, direction);
  }
  /// Reads in every step what only every second one computes.
  static NamedBuffer read_transient(WholeContext& context, const NamedBuffer& direction) {
    context.change_state("mean", direction);
    NamedBuffer copied;
    context.every(2, [&] { copied = copy(context, direction); });
    return copy(context, copied);
  }

  std::string fault_;
};

class Factory final : public OptimizerFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<Optimizer> create(const Options& options) const override {
    if (options.word("fault") == "nothing") return nullptr;
    return std::make_unique<FaultyOptimizer>(options.word("fault"));
  }

 private:
  OptionSchema schema_ = {
      {.name = "fault", .type = OptionType::word, .default_value = "none", .documentation = "The fault."}};
};

}  // namespace

STRATA_PLUGIN(optimizer, "faulty_optimizer", "1.0.0", "Apache-2.0", "An optimizer with the fault that it is asked for.",
              Factory);

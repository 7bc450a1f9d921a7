#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "endings.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/plugin.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace {

/// x -> 3 · x, with the faults that a test selects.
class Tripled : public strata::OpDefinition {
 public:
  explicit Tripled(std::string gradient, std::string fault = "none")
      : gradient_(std::move(gradient)), fault_(std::move(fault)) {}
  ~Tripled() override { endings::end_hook(fault_, "destructor"); }
  Tripled(const Tripled&) = delete;
  Tripled& operator=(const Tripled&) = delete;

  [[nodiscard]] std::string name() const override { return "tripled"; }
  [[nodiscard]] std::string documentation() const override { return "x -> 3 · x."; }
  [[nodiscard]] std::vector<strata::TensorType> infer(const strata::Graph& graph,
                                                      const strata::Node& node) const override {
    endings::end_hook(fault_, "infer");
    return {graph.type(node.operands.at(0))};
  }
  [[nodiscard]] strata::GradientRule gradient() const override {
    return [gradient = gradient_, fault = fault_](strata::GradientContext& context) {
      endings::end_hook(fault, "gradient");
      const strata::Value dy = *context.cotangent(0);
      if (gradient == "of other dimensions") {
        const strata::Node& embedding = context.graph().node(context.operand(0).node);
        context.contribute(0, embedding.operands[0]);
      } else {
        context.contribute(0, gradient == "right" ? context.emit(0, "tripled", {dy}, {})[0] : dy);
      }
    };
  }
  [[nodiscard]] strata::OperandPrecision operand_precision(int /*operand*/) const override {
    return strata::OperandPrecision::any;
  }

 private:
  std::string gradient_;
  std::string fault_;
};

/// x -> 1 or -1, by a digit of x that every step of a finite difference changes.
class Chosen final : public strata::OpDefinition {
 public:
  explicit Chosen(std::string declaration) : declaration_(std::move(declaration)) {}
  [[nodiscard]] std::string name() const override { return "chosen"; }
  [[nodiscard]] std::string documentation() const override { return "x -> 1 or -1, by a late digit of x."; }
  [[nodiscard]] std::vector<strata::TensorType> infer(const strata::Graph& graph,
                                                      const strata::Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }
  [[nodiscard]] strata::GradientRule gradient() const override {
    return [declaration = declaration_](strata::GradientContext& context) {
      if (declaration == "with a gradient") context.contribute(0, *context.cotangent(0));
    };
  }
  [[nodiscard]] bool only_chooses(int /*operand*/) const override { return declaration_ != "missing"; }

 private:
  std::string declaration_;
};

strata::reference::Work prepare_chosen(const strata::OpInstance& op) {
  return [count = strata::reference::elements(op.results[0])](const strata::reference::Launch& launch) {
    for (std::int64_t i = 0; i < count; ++i) {
      launch.result(0).set(i, std::sin(1e9 * launch.operand(0)[i]) < 0 ? -1 : 1);
    }
  };
}

/// The same op under another name, with a different kind of iteration space.
class Misnamed final : public Tripled {
 public:
  Misnamed(std::string name, strata::IterationSpace space)
      : Tripled("right"), name_(std::move(name)), space_(std::move(space)) {}
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] strata::IterationSpace iteration(const strata::Graph& /*graph*/,
                                                 const strata::Node& /*node*/) const override {
    return space_;
  }

 private:
  std::string name_;
  strata::IterationSpace space_;
};

strata::reference::Work prepare_reference(const strata::OpInstance& op) {
  return [count = strata::reference::elements(op.results[0])](const strata::reference::Launch& launch) {
    for (std::int64_t i = 0; i < count; ++i) launch.result(0).set(i, 3 * launch.operand(0)[i]);
  };
}

/// A kernel for f32 that multiplies by `factor`.
strata::KernelDefinition fast_kernel(float factor, const std::string& fault) {
  const auto prepare = [factor, fault](const strata::OpInstance& op, const strata::KernelEnvironment& /*environment*/) {
    endings::end_hook(fault, "prepare");
    const std::int64_t count = strata::kernels::elements(op.results[0]);
    return strata::PreparedKernel{[count, factor, fault](const strata::KernelArguments& arguments) {
      endings::end_hook(fault, "launch");
      const auto* x = strata::kernels::in<float>(arguments, 0);
      auto* y = strata::kernels::out<float>(arguments, 0);
      for (std::int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
    }};
  };
  const auto unsupported = [fault](const strata::OpInstance& /*op*/, const strata::KernelEnvironment& /*environment*/) {
    endings::end_hook(fault, "unsupported");
    return std::optional<std::string>();
  };
  return {.op = "tripled",
          .signature = {"t", "t", false, {strata::DType::f32}},
          .prepare = prepare,
          .unsupported = unsupported};
}

class Factory final : public strata::LibraryFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  void provide(strata::Registration& registration, const strata::Options& options) const override {
    const std::string& fault = options.word("fault");
    registration.add(std::make_unique<Tripled>(options.word("gradient"), fault));
    registration.add(strata::reference::kernel({"tripled", "r", "r", prepare_reference}));
    registration.add(std::make_unique<Chosen>(options.word("chooses")));
    registration.add(strata::reference::kernel({"chosen", "r", "r", prepare_chosen}));
    registration.add(std::make_unique<Misnamed>("of_no_dims", strata::IterationSpace{}));
    strata::IterationSpace of_another_rank;
    of_another_rank.operands = of_another_rank.results = {{"batch", "seq"}};
    registration.add(std::make_unique<Misnamed>("of_another_rank", of_another_rank));
    if (options.word("kernel") == "none") return;
    registration.add(fast_kernel(options.word("kernel") == "right" ? 3.0F : 3.01F, fault));
  }

 private:
  strata::OptionSchema schema_ = {{.name = "gradient",
                                   .type = strata::OptionType::word,
                                   .default_value = "right",
                                   .documentation = "The gradient of the op.",
                                   .choices = {"right", "wrong", "of other dimensions"}},
                                  {.name = "chooses",
                                   .type = strata::OptionType::word,
                                   .default_value = "right",
                                   .documentation = "What the op 'chosen' declares.",
                                   .choices = {"right", "missing", "with a gradient"}},
                                  {.name = "kernel",
                                   .type = strata::OptionType::word,
                                   .default_value = "right",
                                   .documentation = "The fast kernel of the op.",
                                   .choices = {"right", "wrong", "none"}},
                                  {.name = "fault",
                                   .type = strata::OptionType::word,
                                   .default_value = "none",
                                   .documentation = "The end of a hook."}};
};

}  // namespace

STRATA_PLUGIN(library, "faulty_ops", "1.0.0", "Apache-2.0", "Ops with the faults that they are asked for.", Factory);

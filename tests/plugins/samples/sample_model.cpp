#include <limits>
#include <stdexcept>

#include "endings.hpp"
#include "strata/error.hpp"
#include "strata/model.hpp"

namespace {

using strata::Value;

constexpr std::int64_t kContext = 8;

/// A model with one product between an embedding and the loss, with the fault that a test selects.
class SampleModel final : public strata::Model {
 public:
  explicit SampleModel(const strata::Options& options)
      : fault_(options.word("fault")), op_(options.word("op")), activation_(options.word("activation")) {}
  ~SampleModel() override { endings::end_hook(fault_, "destructor"); }
  SampleModel(const SampleModel&) = delete;
  SampleModel& operator=(const SampleModel&) = delete;

  [[nodiscard]] strata::DimSizes sizes() const override {
    if (fault_ == "sizes throws" || (fault_ == "sizes throws later" && calls_++ > 0)) throw 42;
    if (fault_ == "sizes zero") return {{"seq", 0}};
    if (fault_ == "sizes batch") return {{"seq", kContext}, {"batch", 4}};
    if (fault_ == "sizes none") return {};
    if (fault_ == "sizes vocab") return {{"seq", kContext}, {"vocab", 100}};
    return {{"seq", kContext}};
  }
  [[nodiscard]] std::optional<strata::Generation> generation() const override {
    if (fault_ == "generation throws") throw 42;
    if (fault_ == "generation none") return std::nullopt;
    return strata::Generation{.output = fault_ == "generation output" ? "scores" : "logits"};
  }

  void build(strata::GraphBuilder& b) const override {
    endings::end_hook(fault_, "build");
    if (fault_ == "build throws") throw std::out_of_range("too far");
    b.define_dim("seq", fault_ == "another seq" ? kContext / 2 : kContext);
    b.define_dim("embed", 8);
    if (fault_ == "no such value") b.output("nothing", b.activation(Value{}, activation_, "lost"));
    if (fault_ == "block back") {
      b.begin_block(1);
      b.begin_block(0);
    }
    b.define_dim("ffn", 16);
    const strata::Dims places = fault_ == "input shape" ? strata::Dims{"seq", "batch"} : strata::Dims{"batch", "seq"};
    const Value table = matrix(b, "table", {"vocab", "embed"});
    Value x = b.embedding(table, b.input(fault_ == "misspelt input" ? "token" : "tokens", places), "embedding");
    if (fault_.starts_with("start")) x = b.add(x, b.constant("shift", {"embed"}, start()), "shifted");
    if (fault_ == "nameless") x = b.add(x, vector(b, ""), "shifted");
    if (fault_ == "named as a state") x = b.add(x, vector(b, "optimizer/first_moment/table"), "shifted");
    if (!op_.empty()) x = b.op(op_, {x}, "of_the_test")[0];
    x = b.linear(x, matrix(b, "up", {"embed", "ffn"}), {"batch", "seq", "ffn"}, "product");
    x = b.activation(x, activation_, "activation");
    x = b.linear(x, matrix(b, "down", {"ffn", "embed"}), {"batch", "seq", "embed"}, "back");
    const Value logits = b.linear(x, table, {"batch", "seq", "vocab"}, "logits");
    b.output("logits", fault_ == "logits" ? x : logits);
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
  }

 private:
  /// The start of a constant that the fault names.
  [[nodiscard]] strata::Initialization start() const {
    if (fault_ == "start custom") return strata::Initialization::custom(nullptr);
    const double value = std::numeric_limits<double>::quiet_NaN();
    return fault_ == "start normal" ? strata::Initialization::normal(value) : strata::Initialization::constant(value);
  }

  static Value vector(strata::GraphBuilder& b, const std::string& name) {
    return b.parameter(name, {"embed"}, strata::Initialization::constant(0), false);
  }
  static Value matrix(strata::GraphBuilder& b, const std::string& name, const strata::Dims& dims) {
    return b.parameter(name, dims, strata::Initialization::normal(0.3), true);
  }

  std::string fault_;
  mutable int calls_ = 0;
  std::string op_;
  std::string activation_;
};

class Factory final : public strata::ModelFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<strata::Model> create(const strata::Options& options) const override {
    if (options.word("fault") == "nothing") return nullptr;
    return std::make_unique<SampleModel>(options);
  }
  [[nodiscard]] strata::Options shrink(const strata::Options& options,
                                       const strata::ShrinkRequest& /*request*/) const override {
    return options;
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "fault", .type = strata::OptionType::word, .default_value = "none", .documentation = "The fault."},
      {.name = "op",
       .type = strata::OptionType::word,
       .default_value = "",
       .documentation = "An op of one operand between the embedding and the product; empty: none."},
      {.name = "activation",
       .type = strata::OptionType::word,
       .default_value = "silu",
       .documentation = "The activation function."}};
};

}  // namespace

STRATA_PLUGIN(model, "sample_model", "1.0.0", "Apache-2.0", "A small model with the fault that it is asked for.",
              Factory);

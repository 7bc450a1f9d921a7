// The op rotary against its definition in complex numbers: feature i and feature i + head_pair of position p, as
// a + b·√-1, are multiplied by e^(√-1 · p · base^(-2i / head_dim)).

#include <cmath>
#include <complex>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "model/rotary_graph.hpp"
#include "op/kernels.hpp"
#include "op/rotary_op.hpp"
#include "strata/error.hpp"
#include "strata/registration.hpp"

namespace {

using namespace strata;
using Numbers = std::vector<double>;

constexpr std::int64_t kSeq = 5;
constexpr std::int64_t kHeadDim = 6;
constexpr std::int64_t kPairs = kHeadDim / 2;
constexpr double kBase = 100;

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::cerr << "FAILED: " << what << '\n';
  std::exit(1);
}

bool is_near(double a, double b) { return std::abs(a - b) <= 1e-14; }

/// One head of one sequence, rotated by the reference kernel.
class Rotation {
 public:
  Rotation() {
    Registration registration(ops_, kernels_, "the test");
    registration.add(std::make_unique<rotary::RotaryOp>());
    registration.add(rotary::reference_kernel());
    GraphBuilder builder(graph_, ops_, GraphMode::training, DType::f64);
    for (const auto& [dim, size] : DimSizes{{"batch", 1}, {"seq", kSeq}, {"heads", 1}, {"head_dim", kHeadDim}}) {
      builder.define_dim(dim, size);
    }
    const rotary::Tables tables = rotary::rotary_tables(builder, kBase);
    const Value x = builder.parameter("x", {"batch", "seq", "heads", "head_dim"}, Initialization::constant(0), true);
    y_ = rotary::rotate(builder, x, tables, "y");
    cos_ = table("rotary.cos");
    sin_ = table("rotary.sin");
  }

  [[nodiscard]] Numbers operator()(const Numbers& x, bool inverse = false) const {
    const Node& node = graph_.node(y_.node);
    OpInstance instance;
    instance.op = node.op;
    instance.name = node.name;
    instance.attributes = {{"inverse", inverse}};
    for (const Value& operand : node.operands) instance.operands.push_back(describe(operand));
    instance.results = {describe(y_)};
    const KernelEnvironment environment("host", 1);
    const PreparedKernel kernel =
        KernelSelector("the test", kernels_, environment, KernelPolicy::reference_only).prepare(instance);
    Numbers y(x.size());
    const std::vector<const void*> operands{x.data(), cos_.data(), sin_.data()};
    const std::vector<void*> results{y.data()};
    kernel.launch({.operands = operands, .results = results, .context = {}});
    return y;
  }

  /// The message with which the op refuses a node on these operands.
  [[nodiscard]] std::string refusal(std::vector<Value> operands) const {
    Node node;
    node.op = "rotary";
    node.name = "node";
    node.operands = std::move(operands);
    node.attributes = {{"inverse", false}};
    try {
      (void)ops_.get("rotary").infer(graph_, node);
    } catch (const VerificationError& error) {
      return error.what();
    }
    return "accepted";
  }
  [[nodiscard]] const std::vector<Value>& operands() const { return graph_.node(y_.node).operands; }

 private:
  [[nodiscard]] OperandDescription describe(Value value) const {
    return {DType::f64, graph_.type(value).dims, graph_.shape(value)};
  }

  [[nodiscard]] Numbers table(const std::string& name) const {
    const Initializer& initializer = *graph_.find_parameter(name)->initialization.initializer;
    Numbers values;
    for (std::int64_t position = 0; position < kSeq; ++position) {
      for (std::int64_t pair = 0; pair < kPairs; ++pair) {
        values.push_back(initializer.value(std::vector{position, pair}, {kSeq, kPairs}, 0));
      }
    }
    return values;
  }

  OpRegistry ops_;
  KernelRegistry kernels_;
  Graph graph_;
  Value y_;
  Numbers cos_;
  Numbers sin_;
};

Numbers some_numbers(double seed) {
  Numbers numbers;
  for (int i = 0; i < kSeq * kHeadDim; ++i) numbers.push_back(std::sin(seed + 1.7 * i));
  return numbers;
}

std::complex<double> pair_of(const Numbers& x, std::int64_t position, std::int64_t pair) {
  const auto at = static_cast<std::size_t>(position * kHeadDim + pair);
  return {x[at], x[at + kPairs]};
}

void test_definition(const Rotation& rotate) {
  const Numbers x = some_numbers(1);
  const Numbers y = rotate(x);
  for (std::int64_t position = 0; position < kSeq; ++position) {
    for (std::int64_t pair = 0; pair < kPairs; ++pair) {
      const double frequency = std::pow(kBase, -2.0 * static_cast<double>(pair) / kHeadDim);
      const auto expected = pair_of(x, position, pair) * std::polar(1.0, static_cast<double>(position) * frequency);
      const auto found = pair_of(y, position, pair);
      require(is_near(found.real(), expected.real()) && is_near(found.imag(), expected.imag()),
              "position " + std::to_string(position) + ", pair " + std::to_string(pair));
    }
  }
}

void test_inverse(const Rotation& rotate) {
  const Numbers x = some_numbers(2);
  const Numbers same = rotate(rotate(x), true);
  for (std::size_t i = 0; i < x.size(); ++i) require(is_near(same[i], x[i]), "the inverse rotates back");
}

void test_refusals(const Rotation& rotate) {
  const Value x = rotate.operands()[0];
  const Value cos = rotate.operands()[1];
  const Value sin = rotate.operands()[2];
  require(rotate.refusal({x, cos, sin}) == "accepted", "right operands are accepted");
  // The plugin and the hook stand before the op's own words.
  const auto says = [&](const std::vector<Value>& operands, const std::string& words) {
    return rotate.refusal(operands).find(": op rotary 'node': " + words) != std::string::npos;
  };
  require(says({x, cos}, "takes x, cos and sin, found 2"), "two operands are refused");
  require(says({x, x, sin}, "cos is [seq head_pair]"), "no table is refused");
  require(says({x, cos, x}, "sin is like cos"), "one table is refused");
}

}  // namespace

int main() {
  const Rotation rotate;
  test_definition(rotate);
  test_inverse(rotate);
  test_refusals(rotate);
  std::cout << "rotary is as defined\n";
}

#include "model/rotary_graph.hpp"

#include <cmath>
#include <memory>

#include "strata/error.hpp"

namespace rotary {
namespace {

using namespace strata;

enum class Function : std::uint8_t { cosine, sine };

class AngleTable final : public Initializer {
 public:
  AngleTable(Function function, double base) : function_(function), base_(base) {}

  [[nodiscard]] double value(std::span<const std::int64_t> index, const Shape& shape,
                             std::uint64_t /*key*/) const override {
    const double exponent = static_cast<double>(index[1]) / static_cast<double>(shape[1]);
    const double angle = static_cast<double>(index[0]) * std::pow(base_, -exponent);
    return function_ == Function::cosine ? std::cos(angle) : std::sin(angle);
  }

 private:
  Function function_;
  double base_;
};

}  // namespace

Tables rotary_tables(GraphBuilder& builder, double base) {
  const std::int64_t head_dim = builder.find_size("head_dim").value_or(0);
  if (head_dim < 2 || head_dim % 2 != 0) {
    throw ConfigurationError("rotary positions: found head_dim = " + std::to_string(head_dim) +
                             "; accepted: an even number");
  }
  builder.define_dim("head_pair", head_dim / 2);
  const auto table = [&](const std::string& name, Function function) {
    return builder.constant(name, {"seq", "head_pair"},
                            Initialization::custom(std::make_shared<AngleTable>(function, base)));
  };
  return {table("rotary.cos", Function::cosine), table("rotary.sin", Function::sine)};
}

Value rotate(GraphBuilder& builder, Value x, const Tables& tables, const std::string& name) {
  return builder.op("rotary", {x, tables.cos, tables.sin}, name, {{"inverse", false}})[0];
}

}  // namespace rotary

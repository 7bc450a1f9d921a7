#include "common/rope_tables.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>

#include "strata/error.hpp"

namespace strata::models {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// The angle of a pair under llama3's scaling.
double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double turns = scaling.original_context * frequency / kTurn;
  const double share = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  const double kept = std::clamp(share, 0.0, 1.0);
  return kept * frequency + (1 - kept) * frequency / scaling.factor;
}

/// The pair, as a real number, that makes `turns` turns over the original context.
double pair_with_turns(double turns, const Rope& rope, std::int64_t width) {
  return static_cast<double>(width) * std::log(rope.scaling.original_context / (turns * kTurn)) /
         (2 * std::log(rope.base));
}

/// The share of YaRN's interpolation in the angle of pair `index`: 0 for fast pairs, 1 for slow ones.
double yarn_interpolation(std::int64_t index, const Rope& rope, std::int64_t width) {
  const double begin = std::max(std::floor(pair_with_turns(rope.scaling.beta_fast, rope, width)), 0.0);
  double end =
      std::min(std::ceil(pair_with_turns(rope.scaling.beta_slow, rope, width)), static_cast<double>(width - 1));
  if (begin == end) end += 0.001;
  return std::clamp((static_cast<double>(index) - begin) / (end - begin), 0.0, 1.0);
}

enum class Function : std::uint8_t { cosine, sine };

class AngleTable final : public Initializer {
 public:
  AngleTable(Function function, std::vector<double> frequencies, double magnitude)
      : function_(function), frequencies_(std::move(frequencies)), magnitude_(magnitude) {}

  [[nodiscard]] double value(std::span<const std::int64_t> index, const Shape& /*shape*/,
                             std::uint64_t /*key*/) const override {
    const double angle = static_cast<double>(index[0]) * frequencies_.at(static_cast<std::size_t>(index[1]));
    return magnitude_ * (function_ == Function::cosine ? std::cos(angle) : std::sin(angle));
  }

 private:
  Function function_;
  std::vector<double> frequencies_;
  double magnitude_;
};

}  // namespace

std::vector<double> rope_frequencies(const Rope& rope, std::int64_t width, std::int64_t context) {
  const bool is_long = static_cast<double>(context) > rope.scaling.original_context;
  const std::vector<double>& factors = is_long ? rope.scaling.long_factors : rope.scaling.short_factors;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double frequency = std::pow(rope.base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    const double interpolated = frequency / rope.scaling.factor;
    switch (rope.scaling.kind) {
      case RopeScaling::Kind::none:
        frequencies.push_back(frequency);
        break;
      case RopeScaling::Kind::linear:
        frequencies.push_back(interpolated);
        break;
      case RopeScaling::Kind::llama3:
        frequencies.push_back(llama3_frequency(frequency, rope.scaling));
        break;
      case RopeScaling::Kind::yarn: {
        const double share = yarn_interpolation(i, rope, width);
        frequencies.push_back(share * interpolated + (1 - share) * frequency);
        break;
      }
      case RopeScaling::Kind::longrope:
        frequencies.push_back(frequency / factors.at(static_cast<std::size_t>(i)));
        break;
    }
  }
  return frequencies;
}

double rope_magnitude(const Rope& rope) {
  const RopeScaling& scaling = rope.scaling;
  const bool is_long = scaling.kind == RopeScaling::Kind::longrope;
  if (!is_long && scaling.kind != RopeScaling::Kind::yarn) return 1;
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  if (scaling.factor <= 1) return 1;
  if (is_long) return std::sqrt(1 + std::log(scaling.factor) / std::log(scaling.original_context));
  return 0.1 * std::log(scaling.factor) + 1;
}

RopeTables rope_tables(GraphBuilder& builder, const Rope& rope, const Dim& positions_dim, Value positions,
                       const std::string& name) {
  const std::int64_t width = rope.width(builder.find_size("head_dim").value_or(0));
  if (width < 2 || width % 2 != 0) {
    throw ConfigurationError("rotary positions: found " + std::to_string(width) +
                             " features of a head that turn; accepted: an even number");
  }
  builder.define_dim("head_pair", width / 2);
  const std::int64_t context = builder.find_size(positions_dim).value_or(0);
  const auto table = [&](const std::string& suffix, Function function) {
    const auto initializer =
        std::make_shared<AngleTable>(function, rope_frequencies(rope, width, context), rope_magnitude(rope));
    return builder.constant(name + suffix, {positions_dim, "head_pair"}, Initialization::custom(initializer));
  };
  return {table(".cos", Function::cosine), table(".sin", Function::sine), positions};
}

Value rotate(GraphBuilder& builder, Value x, const RopeTables& tables, const std::string& name) {
  return builder.op("rope", {x, tables.cos, tables.sin, tables.positions}, name, {{"inverse", false}})[0];
}

}  // namespace strata::models

// Weights in 8 or 4 bits: error bounds, what encoding again gives, numbers that are not finite.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "strata/error.hpp"
#include "strata/internal/weight_blocks.hpp"
#include "strata/random.hpp"

namespace strata::testing {
namespace {

struct WeightRow {
  const char* name;
  WeightBlocks blocks;
  Shape shape;
  std::size_t along = 0;
  /// Largest error relative to the largest magnitude of a block.
  double error = 0;
};

void PrintTo(const WeightRow& row, std::ostream* out) { *out << row.name; }

/// Half of the largest distance between neighbouring numbers of nf4.
constexpr double kNf4Error = (1 - 0.6961928009986877) / 2;

class CodedWeights : public ::testing::TestWithParam<WeightRow> {
 protected:
  [[nodiscard]] static BlockedWeight shape() { return {GetParam().blocks, GetParam().shape, GetParam().along}; }

  /// Numbers of every magnitude between 1e-6 and 1.
  [[nodiscard]] static std::vector<float> random_weight() {
    std::vector<float> weight(static_cast<std::size_t>(shape().elements()));
    const std::uint64_t key = random::stream_key(1, GetParam().name, 0);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      weight[i] = static_cast<float>(random::normal(key, i) * std::pow(10.0, -static_cast<double>(i % 7)));
    }
    return weight;
  }

  [[nodiscard]] static std::vector<float> decode(const EncodedWeight& encoded) {
    std::vector<float> weight(static_cast<std::size_t>(shape().elements()));
    decode_weight(shape(), encoded.codes, encoded.scales, weight);
    return weight;
  }

  /// The index of the scale of a number.
  [[nodiscard]] static std::size_t scale_of(std::size_t number) {
    const BlockedWeight weight = shape();
    const auto at = static_cast<std::int64_t>(number);
    const std::int64_t block = at / weight.inner % weight.length / weight.blocks.size;
    const std::int64_t row = at / weight.inner / weight.length * weight.blocks.scales(weight.length) + block;
    return static_cast<std::size_t>(row * weight.inner + at % weight.inner);
  }
};

TEST_P(CodedWeights, DifferByAtMostHalfOfADistance) {
  const std::vector<float> weight = random_weight();
  const EncodedWeight encoded = encode_weight(shape(), weight);
  const std::vector<float> decoded = decode(encoded);
  std::vector<float> largest(encoded.scales.size());
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const float scale = encoded.scales[scale_of(i)];
    EXPECT_LE(std::abs(decoded[i] - weight[i]), GetParam().error * scale * (1 + 1e-6)) << i;
    largest[scale_of(i)] = std::max(largest[scale_of(i)], std::abs(weight[i]));
  }
  EXPECT_EQ(largest, encoded.scales);
}

TEST_P(CodedWeights, AreTheSameWhenTheyAreEncodedAgain) {
  const EncodedWeight encoded = encode_weight(shape(), random_weight());
  const std::vector<float> decoded = decode(encoded);
  const EncodedWeight again = encode_weight(shape(), decoded);
  EXPECT_EQ(again.scales, encoded.scales);
  EXPECT_EQ(decode(again), decoded);
}

TEST_P(CodedWeights, WithoutFiniteNumbersAreNotNumbers) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> weight = random_weight();
    weight[weight.size() / 2] = bad;
    const std::vector<float> decoded = decode(encode_weight(shape(), weight));
    for (std::size_t i = 0; i < weight.size(); ++i) {
      EXPECT_EQ(std::isnan(decoded[i]), scale_of(i) == scale_of(weight.size() / 2)) << i;
    }
  }
}

TEST_P(CodedWeights, KeepZeros) {
  const std::vector<float> zeros(static_cast<std::size_t>(shape().elements()));
  EXPECT_EQ(decode(encode_weight(shape(), zeros)), zeros);
}

INSTANTIATE_TEST_SUITE_P(Rows, CodedWeights,
                         ::testing::Values(WeightRow{"int8_last", {WeightCode::int8, 64}, {3, 130}, 1, 0.5 / 127},
                                           WeightRow{"int8_first", {WeightCode::int8, 16}, {70, 3, 2}, 0, 0.5 / 127},
                                           WeightRow{"int8_blocks_of_one", {WeightCode::int8, 1}, {5, 7}, 1, 0},
                                           WeightRow{"nf4_last", {WeightCode::nf4, 64}, {4, 131}, 1, kNf4Error},
                                           WeightRow{"nf4_middle", {WeightCode::nf4, 8}, {2, 21, 5}, 1, kNf4Error},
                                           WeightRow{"nf4_one_block", {WeightCode::nf4, 1024}, {999}, 0, kNf4Error}),
                         [](const auto& info) { return info.param.name; });

TEST(CodedWeights, OfFourBitsTakeTheNearestNumber) {
  std::vector<float> weight;
  for (int i = -1000; i <= 1000; ++i) weight.push_back(static_cast<float>(i) / 1000.0F);
  const BlockedWeight shape({WeightCode::nf4, 4096}, {static_cast<std::int64_t>(weight.size())}, 0);
  const EncodedWeight encoded = encode_weight(shape, weight);
  std::vector<float> decoded(weight.size());
  decode_weight(shape, encoded.codes, encoded.scales, decoded);
  for (std::size_t i = 0; i < weight.size(); ++i) {
    for (const float number : kNormalFloat4) {
      EXPECT_LE(std::abs(decoded[i] - weight[i]), std::abs(number - weight[i]) + 1e-7) << weight[i];
    }
  }
}

TEST(CodedWeights, RefuseUnknownCodesAndOddBlocks) {
  const std::vector<std::pair<Attributes, std::string>> rows{
      {{{"code", "fp4"}, {"block", std::int64_t{64}}}, "the code 'fp4'; accepted: int8, nf4"},
      {{{"code", "nf4"}, {"block", std::int64_t{7}}}, "blocks of 7; accepted: 1 or more, an even number for nf4"},
      {{{"code", "int8"}, {"block", std::int64_t{0}}}, "blocks of 0"}};
  for (const auto& [attributes, message] : rows) {
    try {
      static_cast<void>(WeightBlocks::from(attributes));
      ADD_FAILURE() << message;
    } catch (const VerificationError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace strata::testing

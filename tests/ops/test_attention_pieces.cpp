// Attention to pieces of the keys, merged, against attention to all keys. Ring attention relies on this.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/comparison.hpp"
#include "ops/devices.hpp"
#include "ops/op_case.hpp"
#include "random_choice.hpp"
#include "strata/random.hpp"

namespace strata::testing {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kLength = 24;
constexpr std::int64_t kGroup = 2;
constexpr std::int64_t kKeyHeads = 2;
constexpr std::int64_t kWidth = 6;

using Values = std::vector<double>;

/// The keys of a piece as a map with runs in ascending order.
IndexMap map_of(const std::vector<std::int64_t>& keys) {
  IndexMap map{kLength, {}};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool continues = i > 0 && keys[i] == keys[i - 1] + 1;
    if (!continues) map.segments.push_back({static_cast<std::int64_t>(i), keys[i], 0});
    ++map.segments.back().length;
  }
  return map;
}

/// Distributes the keys over some pieces at random. Each piece has at least one key.
std::vector<std::vector<std::int64_t>> deal_keys(RandomChoice& choices) {
  std::vector<std::vector<std::int64_t>> pieces(static_cast<std::size_t>(2 + choices.below(3)));
  for (std::int64_t key = 0; key < kLength; ++key) {
    const auto count = static_cast<std::int64_t>(pieces.size());
    pieces[static_cast<std::size_t>(key < count ? key : choices.below(count))].push_back(key);
  }
  return pieces;
}

/// The rows of `whole` [batch length …] that `keys` names.
Values take(const Values& whole, const std::vector<std::int64_t>& keys) {
  const std::size_t row = whole.size() / (kBatch * kLength);
  Values part;
  for (std::int64_t batch = 0; batch < kBatch; ++batch) {
    for (const std::int64_t key : keys) {
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(row) * (batch * kLength + key);
      part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(row));
    }
  }
  return part;
}

void put(const Values& part, const std::vector<std::int64_t>& keys, Values& whole) {
  const auto row = static_cast<std::ptrdiff_t>(whole.size() / (kBatch * kLength));
  auto from = part.begin();
  for (std::int64_t batch = 0; batch < kBatch; ++batch) {
    for (const std::int64_t key : keys) {
      std::copy(from, from + row, whole.begin() + row * (batch * kLength + key));
      from += row;
    }
  }
}

class AttentionPieces : public ::testing::TestWithParam<int> {
 protected:
  AttentionPieces() : device_(make_device("reference")) {
    const auto seed = std::to_string(GetParam());
    const std::int64_t keys = kBatch * kLength * kKeyHeads * kWidth;
    query_ = random_values("query" + seed, keys * kGroup, Fill::normal, DType::f64);
    key_ = random_values("key" + seed, keys, Fill::normal, DType::f64);
    value_ = random_values("value" + seed, keys, Fill::normal, DType::f64);
    d_output_ = random_values("d_output" + seed, keys * kGroup, Fill::normal, DType::f64);
  }

  [[nodiscard]] static bool has_documents() { return GetParam() / 2 % 2 == 1; }
  [[nodiscard]] static std::int64_t window() { return GetParam() % 2 == 0 && GetParam() / 2 % 3 != 0 ? 5 : 0; }

  /// Documents of 7 tokens.
  static Values documents(const IndexMap& tokens) {
    Values numbers;
    for (std::int64_t i = 0; i < kBatch * tokens.local_size(); ++i) {
      numbers.push_back(static_cast<double>(tokens.global_index(i % tokens.local_size()) / 7));
    }
    return numbers;
  }

  [[nodiscard]] std::vector<Values> run(const std::string& op, const IndexMap& keys, std::vector<Values> operands) {
    const Dims query{"batch", "seq", "kv_heads", "group", "head_dim"};
    const Dims key{"batch", "seq", "kv_heads", "head_dim"};
    const Dims row{"batch", "kv_heads", "group", "seq"};
    OpCase op_case{.name = "pieces",
                   .op = op,
                   .sizes = {{"batch", kBatch},
                             {"seq", kLength},
                             {"kv_heads", kKeyHeads},
                             {"group", kGroup},
                             {"head_dim", kWidth}},
                   .operands = {},
                   .shards = {{"kv_seq", keys}}};
    if (op == "attention_merge") {
      op_case.operands = {{query}, {row}, {query}, {row}};
      op_case.shards = {};
    } else {
      op_case.operands = {{query}, {key}, {key}};
      op_case.attributes = {{"causal", GetParam() % 2 == 0}, {"dropout", GetParam() % 3 == 0 ? 0.2 : 0.0}};
    }
    if (op == "attention_gradient") {
      for (const Dims& dims : {query, row, query}) op_case.operands.push_back({dims});
    }
    if (op != "attention_merge" && window() > 0) op_case.attributes.set("window", window());
    if (op != "attention_merge" && has_documents()) {
      op_case.operands.insert(op_case.operands.end(), 2, {.dims = {"batch", "seq"}, .dtype = DType::i32});
      operands.push_back(documents(IndexMap::whole(kLength)));
      operands.push_back(documents(keys));
    }
    const OpInstance instance = make_instance(op_case, core_registry(), DType::f64);
    CaseValues values{std::move(operands), {}};
    for (const OperandDescription& result : instance.results) {
      values.before.emplace_back(static_cast<std::size_t>(element_count(result.shape)), std::nan(""));
    }
    return run_case(op_case, instance, values, *device_);
  }

  static void expect_equal(const Values& found, const Values& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-12) << i;
  }

  std::unique_ptr<Device> device_;
  Values query_, key_, value_, d_output_;
};

TEST_P(AttentionPieces, MergedInAnyOrderEqualTheWhole) {
  RandomChoice choices(static_cast<std::uint64_t>(GetParam()), "pieces");
  const auto whole = run("attention", IndexMap::whole(kLength), {query_, key_, value_});
  std::vector<Values> merged;
  for (const auto& keys : deal_keys(choices)) {
    const auto piece = run("attention", map_of(keys), {query_, take(key_, keys), take(value_, keys)});
    merged = merged.empty() ? piece : run("attention_merge", {}, {merged[0], merged[1], piece[0], piece[1]});
  }
  expect_equal(merged[0], whole[0]);
  expect_equal(merged[1], whole[1]);
}

TEST_P(AttentionPieces, GradientsOfPiecesAreThoseOfTheWhole) {
  RandomChoice choices(static_cast<std::uint64_t>(GetParam()), "pieces");
  const auto forward = run("attention", IndexMap::whole(kLength), {query_, key_, value_});
  const auto whole =
      run("attention_gradient", IndexMap::whole(kLength), {query_, key_, value_, forward[0], forward[1], d_output_});
  Values d_query(query_.size(), 0.0);
  Values d_key(key_.size());
  Values d_value(value_.size());
  for (const auto& keys : deal_keys(choices)) {
    const auto piece = run("attention_gradient", map_of(keys),
                           {query_, take(key_, keys), take(value_, keys), forward[0], forward[1], d_output_});
    std::transform(d_query.begin(), d_query.end(), piece[0].begin(), d_query.begin(), std::plus<>());
    put(piece[1], keys, d_key);
    put(piece[2], keys, d_value);
  }
  expect_equal(d_query, whole[0]);
  expect_equal(d_key, whole[1]);
  expect_equal(d_value, whole[2]);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AttentionPieces, ::testing::Range(0, 12));

}  // namespace
}  // namespace strata::testing

#include "relative_bias.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

namespace t5 {
namespace {

using namespace strata;

/// A matrix [distance bucket] with a one in the bucket of each distance, from 1 - length on.
class ChosenBuckets final : public Initializer {
 public:
  explicit ChosenBuckets(const Buckets& buckets) : buckets_(buckets) {}

  [[nodiscard]] double value(std::span<const std::int64_t> index, const Shape& shape,
                             std::uint64_t /*key*/) const override {
    return buckets_.of(index[0] - shape[0] / 2) == index[1] ? 1 : 0;
  }

 private:
  Buckets buckets_;
};

}  // namespace

std::int64_t Buckets::of(std::int64_t distance) const {
  const std::int64_t of_direction = both_directions ? count / 2 : count;
  const std::int64_t first = both_directions && distance > 0 ? of_direction : 0;
  const std::int64_t size = both_directions ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
  const std::int64_t exact = of_direction / 2;
  if (size < exact) return first + size;
  // In f32, as in other implementations, because a number next to a bound would otherwise have another bucket.
  const float ratio = std::log(static_cast<float>(size) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const auto large = exact + static_cast<std::int64_t>(ratio * static_cast<float>(of_direction - exact));
  return first + std::min(large, of_direction - 1);
}

Value relative_bias(GraphBuilder& b, const Buckets& buckets, std::int64_t length, const Dim& distance,
                    const std::string& name) {
  b.derive_dim(distance, 2 * length - 1, "the tokens of the sequence");
  const double deviation = 1 / std::sqrt(static_cast<double>(*b.find_size("embed")));
  const Value table = b.parameter(name + ".weight", {"bucket", "heads"}, Initialization::normal(deviation), true);
  const Value chosen = b.constant(name + ".buckets", {distance, "bucket"},
                                  Initialization::custom(std::make_shared<ChosenBuckets>(buckets)));
  return b.linear(table, chosen, {"heads", distance}, name);
}

}  // namespace t5

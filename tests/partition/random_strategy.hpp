#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/strategy.hpp"

namespace strata::testing {

/// A strategy with any axes and any rules. For all rules, the results must be those of one rank.
class RulesOnly final : public Strategy {
 public:
  RulesOnly(std::vector<MeshAxis> axes, std::vector<Rule> rules, GradientBuckets buckets = {})
      : axes_(std::move(axes)), rules_(std::move(rules)), buckets_(buckets) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return axes_; }
  [[nodiscard]] std::vector<Rule> rules() const override { return rules_; }
  [[nodiscard]] std::optional<GradientBuckets> gradient_buckets() const override { return buckets_; }
  /// Describes everything that was chosen except the filters' contents, for failure messages.
  [[nodiscard]] std::string description() const;

 private:
  std::vector<MeshAxis> axes_;
  std::vector<Rule> rules_;
  GradientBuckets buckets_;
};

/// A mesh of up to three axes and eight ranks with random rules: any dim, priority, distribution and filter.
[[nodiscard]] std::shared_ptr<const RulesOnly> random_strategy(std::uint64_t seed);

}  // namespace strata::testing

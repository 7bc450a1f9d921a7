#pragma once

#include "strata/error.hpp"
#include "strata/strategy.hpp"

/// The smallest strategy plugin: options, and a strategy that maps "batch" onto one axis.
class SampleStrategy final : public strata::Strategy {
 public:
  explicit SampleStrategy(std::int64_t size) : size_(size) {}
  [[nodiscard]] std::vector<strata::MeshAxis> axes() const override { return {{"sample", static_cast<int>(size_)}}; }

 private:
  std::int64_t size_;
};

class SampleFactory : public strata::StrategyFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<strata::Strategy> create(const strata::Options& options) const override {
    const std::int64_t size = options.integer("size");
    if (size == 13) throw strata::OptionError("size", "found 13; accepted: luckier numbers");
    return std::make_unique<SampleStrategy>(size);
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "size",
       .type = strata::OptionType::integer,
       .documentation = "Ranks along the axis.",
       .minimum = 1,
       .maximum = 64,
       .role = strata::OptionRole::axis_size},
      {.name = "mode",
       .type = strata::OptionType::word,
       .default_value = "plain",
       .documentation = "Nothing depends on it.",
       .choices = {"plain", "fancy"}},
  };
};

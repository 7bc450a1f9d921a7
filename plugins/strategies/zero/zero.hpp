#pragma once

#include "quantized_communication.hpp"
#include "settings.hpp"
#include "strata/strategy.hpp"

namespace zero {

/// ZeRO: the ranks of a data-parallel axis share optimizer states, gradients and parameters instead of each holding all
/// (Rajbhandari et al., "ZeRO", SC 2020). PyTorch calls stage 3 FSDP (Zhao et al., VLDB 2023).
class Zero final : public strata::Strategy {
 public:
  explicit Zero(Settings settings);

  [[nodiscard]] std::vector<strata::MeshAxis> axes() const override;
  [[nodiscard]] std::vector<strata::Rule> rules() const override;
  [[nodiscard]] std::optional<strata::GradientBuckets> gradient_buckets() const override;
  [[nodiscard]] std::optional<strata::ParameterStorage> storage(
      const strata::ParameterDescription& parameter) const override;
  [[nodiscard]] strata::Conversion convert(const strata::PlannedCollective& collective) const override;

 private:
  /// The strategy's sharding axes, outermost first: one, or two with a hierarchical partition.
  [[nodiscard]] std::vector<strata::MeshAxis> sharding_axes() const;

  /// sharding_axes() and the axes of other strategies that also shard the storage.
  [[nodiscard]] std::vector<strata::Axis> storage_axes() const;

  Settings settings_;
};

}  // namespace zero

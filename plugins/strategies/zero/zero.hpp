#pragma once

#include "quantized_communication.hpp"
#include "settings.hpp"
#include "strata/strategy.hpp"

namespace zero {

/// Data parallelism without redundancy: ranks that share the batch deal optimizer states, gradients and parameters
/// among them (Rajbhandari et al., "ZeRO", SC 2020; stage 3 is what PyTorch calls FSDP, Zhao et al., VLDB 2023).
class Zero final : public strata::Strategy {
 public:
  explicit Zero(Settings settings);

  [[nodiscard]] std::vector<strata::MeshAxis> axes() const override;
  [[nodiscard]] std::vector<strata::Rule> rules() const override;
  [[nodiscard]] std::optional<strata::GradientBuckets> gradient_buckets() const override;
  [[nodiscard]] std::optional<strata::ParameterStorage> storage(
      const strata::ParameterDescription& parameter) const override;
  [[nodiscard]] bool claims_collective(const strata::PlannedCollective& collective) const override;
  void convert(strata::ConversionContext& context) const override;

 private:
  /// The axes over which storage is dealt, outermost first: one, or two with a hierarchical partition.
  [[nodiscard]] std::vector<strata::MeshAxis> sharding_axes() const;

  /// The same and those of other strategies.
  [[nodiscard]] std::vector<strata::Axis> storage_axes() const;

  Settings settings_;
};

}  // namespace zero

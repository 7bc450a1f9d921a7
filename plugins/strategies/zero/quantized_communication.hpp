#pragma once

#include <vector>

#include "settings.hpp"
#include "strata/lowering.hpp"

namespace zero {

/// Quantised communication of ZeRO++, which replaces collectives of buckets (Wang et al., "ZeRO++: Extremely Efficient
/// Collective Communication for Giant Model Training", 2023).
class QuantizedCommunication {
 public:
  /// `own`: the sharding axes that the strategy adds. `storage`: all axes that shard the storage.
  QuantizedCommunication(const QuantizationSettings& settings, std::vector<strata::MeshAxis> own,
                         std::vector<strata::Axis> storage);

  [[nodiscard]] bool claims(const strata::PlannedCollective& collective) const;
  void convert(strata::ConversionContext& context) const;

 private:
  [[nodiscard]] bool is_over_storage(const std::vector<strata::Axis>& axes) const;

  QuantizationSettings settings_;
  std::vector<strata::MeshAxis> own_;
  std::vector<strata::Axis> storage_;
};

}  // namespace zero

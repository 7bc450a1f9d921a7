#pragma once

#include <vector>

#include "settings.hpp"
#include "strata/lowering.hpp"

namespace zero {

/// ZeRO++'s quantised communication (Wang et al., "ZeRO++: Extremely Efficient Collective Communication for Giant Model
/// Training", 2023) in the place of the collectives of buckets.
class QuantizedCommunication {
 public:
  /// `own`: the axes that the strategy adds to shard storage over; `storage`: all those that storage is dealt over.
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

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/options.hpp"
#include "strata/strategy.hpp"

namespace zero {

/// What travels quantised.
struct QuantizationSettings {
  bool weights = false;
  bool gradients = false;
  /// Numbers that share a scale.
  std::int64_t block = 256;
  /// Its collectives, with numbers as they are: always, or for f64.
  bool off = false;
  bool spares_f64 = true;
};

/// The plugin's options, checked.
struct Settings {
  int stage = 1;
  std::string axis;
  int size = 1;
  /// Copies of the sharded model, each on `size` ranks.
  int replicate = 1;
  /// Axes of other strategies over which is sharded too.
  std::vector<std::string> also_over;
  double bucket_mb = 25;
  bool overlap = true;
  int prefetch = 1;
  bool reshard_after_forward = true;
  /// Ranks of a node that keep a second copy of the parameters among them; 1: none.
  int hierarchical_partition = 1;
  /// Where the optimizer's states, and the parameters, lie.
  strata::MemoryPlace offload_optimizer = strata::MemoryPlace::device;
  strata::MemoryPlace offload_param = strata::MemoryPlace::device;
  std::string offload_directory;
  QuantizationSettings quantization;
};

[[nodiscard]] const strata::OptionSchema& schema();

/// \throws strata::ConfigurationError where options do not fit each other.
[[nodiscard]] Settings read_settings(const strata::Options& options);

}  // namespace zero

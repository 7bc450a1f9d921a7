#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/options.hpp"
#include "strata/strategy.hpp"

namespace zero {

/// Which collectives are quantised.
struct QuantizationSettings {
  bool weights = false;
  bool gradients = false;
  /// Numbers per scale.
  std::int64_t block = 256;
  /// True: never quantises, but uses the same collectives.
  bool off = false;
  /// True: does not quantise f64.
  bool spares_f64 = true;
};

/// The plugin's options, checked individually and together.
struct Settings {
  int stage = 1;
  std::string axis;
  int size = 1;
  /// Number of copies of the sharded model, each on `size` ranks.
  int replicate = 1;
  /// Axes of other strategies that also shard the storage.
  std::vector<std::string> also_over;
  double bucket_mb = 25;
  bool overlap = true;
  int prefetch = 1;
  bool reshard_after_forward = true;
  /// Ranks of a node that share a secondary copy of the parameters; 1: no such copy.
  int hierarchical_partition = 1;
  /// Where optimizer states and parameters are stored.
  strata::MemoryPlace offload_optimizer = strata::MemoryPlace::device;
  strata::MemoryPlace offload_param = strata::MemoryPlace::device;
  std::string offload_directory;
  QuantizationSettings quantization;
};

[[nodiscard]] const strata::OptionSchema& schema();

/// Reads the options. \throws strata::ConfigurationError if they contradict each other.
[[nodiscard]] Settings read_settings(const strata::Options& options);

}  // namespace zero

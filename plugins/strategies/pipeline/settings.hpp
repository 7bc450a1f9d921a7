#pragma once

#include <string>
#include <vector>

#include "schedule.hpp"
#include "strata/options.hpp"

namespace pipeline {

/// How blocks are divided into chunks.
struct Split {
  enum class Kind : unsigned char { cost, even, given };
  Kind kind = Kind::cost;
  /// For Kind::given: the number of blocks of each chunk.
  std::vector<int> blocks;
};

/// The plugin's options, checked individually and together.
struct Settings {
  std::string axis;
  int stages = 1;
  const Schedule* schedule = nullptr;
  /// Number of chunks per stage.
  int virtual_stages = 1;
  Split split;

  [[nodiscard]] int chunks() const { return stages * virtual_stages; }
};

[[nodiscard]] const strata::OptionSchema& option_schema();

/// Reads the options. \throws strata::ConfigurationError that names the option.
[[nodiscard]] Settings settings_from(const strata::Options& options);

}  // namespace pipeline

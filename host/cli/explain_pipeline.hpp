#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "compiler/placement/stages.hpp"
#include "reports/timeline.hpp"
#include "train/run/inspection.hpp"

namespace strata::host {

/// How a step runs through the stages of a run; one stage where no strategy places blocks.
struct PipelineReport {
  Stages stages;
  std::vector<BlockCost> costs;
  int micro_batches = 1;
  /// With chunks that all take the same time, and with chunks that take what their FLOPs say.
  Timeline equal;
  Timeline flops;
};

[[nodiscard]] PipelineReport report_pipeline(const Inspection& inspection);

/// Stages with their blocks, their share of the FLOPs and their micro-batches in flight; the bubble.
void print_pipeline(std::ostream& out, const PipelineReport& report);
[[nodiscard]] nlohmann::ordered_json pipeline_json(const PipelineReport& report);

/// Files that the timeline is drawn to; an empty name for none.
struct TimelineFiles {
  std::string svg;
  std::string trace;
  /// Chunks that all take the same time, as in the papers, instead of by FLOPs.
  bool equal = false;
};

/// Each file appears whole or not at all. \throws RuntimeError with the path.
void write_timelines(const TimelineFiles& files, const PipelineReport& report, const std::string& run);

}  // namespace strata::host

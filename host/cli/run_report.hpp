#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "compiler/placement/stages.hpp"
#include "reports/timeline.hpp"
#include "train/inspection.hpp"

namespace strata::host {

/// The stages of a run and the timeline of its step. Without a pipeline strategy there is one stage.
struct PipelineReport {
  Stages stages;
  std::vector<BlockCost> costs;
  int micro_batches = 1;
  /// Timelines with equal durations of all chunks, and with durations by FLOPs.
  Timeline equal;
  Timeline flops;
};

/// `draws`: whether the timelines need their events.
[[nodiscard]] PipelineReport report_pipeline(const Inspection& inspection, bool draws);

/// Prints the bubble fraction, and for each stage its blocks, its share of FLOPs and its micro-batches in flight.
void print_pipeline(std::ostream& out, const PipelineReport& report);
[[nodiscard]] nlohmann::ordered_json pipeline_json(const PipelineReport& report);

/// Files for drawings of the timeline. An empty name writes no file.
struct TimelineFiles {
  std::string svg;
  std::string trace;
  /// True: all chunks take the same time, as in papers. False: durations by FLOPs.
  bool equal = false;
};

/// Writes each file atomically. \throws RuntimeError with the path.
void write_timelines(const TimelineFiles& files, const PipelineReport& report, const std::string& run);

/// Offloaded bytes of the rank with the most: ", 12.0 MiB of host memory, 3.0 GiB in a file". Empty if nothing is
/// offloaded.
[[nodiscard]] std::string describe_offload(const TrainingPrograms& programs);

/// Prints the offloaded bytes of ranks and the transfers of a step. Prints nothing if nothing is offloaded.
void print_offload(std::ostream& out, const TrainingPrograms& programs);

/// The same as JSON: "host_bytes" and "file_bytes" by rank, and a step's transfers by class of ranks.
[[nodiscard]] nlohmann::ordered_json offload_json(const TrainingPrograms& programs);

}  // namespace strata::host

#include "cli/explain_pipeline.hpp"

#include <iomanip>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/file_io.hpp"
#include "files/text_format.hpp"
#include "reports/timeline.hpp"
#include "reports/timeline_program.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

double block_flops(const BlockCost& cost) { return cost.forward_flops + cost.backward_flops; }

/// Fraction of all FLOPs that a stage computes.
double flop_share(const PipelineReport& report, int stage) {
  double own = 0;
  double all = 0;
  for (const BlockCost& cost : report.costs) {
    all += block_flops(cost);
    if (report.stages.stage(report.stages.chunk(cost.block)) == stage) own += block_flops(cost);
  }
  return all > 0 ? own / all : 0;
}

std::vector<int> chunks_of(const Stages& stages, int stage) {
  std::vector<int> chunks;
  for (std::size_t chunk = 0; chunk < stages.stage_of_chunk.size(); ++chunk) {
    if (stages.stage_of_chunk[chunk] == stage) chunks.push_back(static_cast<int>(chunk));
  }
  return chunks;
}

std::vector<int> blocks_of(const Stages& stages, int chunk) {
  std::vector<int> blocks;
  for (std::size_t block = 0; block < stages.chunk_of_block.size(); ++block) {
    if (stages.chunk_of_block[block] == chunk) blocks.push_back(static_cast<int>(block));
  }
  return blocks;
}

/// A list of blocks: "0-3" for consecutive ones, "0,2,5" for others.
std::string block_list(const std::vector<int>& blocks) {
  const auto count = static_cast<int>(blocks.size());
  if (count > 1 && blocks.back() - blocks.front() + 1 == count) {
    return std::to_string(blocks.front()) + "-" + std::to_string(blocks.back());
  }
  std::string list;
  for (const int block : blocks) list += (list.empty() ? "" : ",") + std::to_string(block);
  return list;
}

/// A number with its noun: "1 stage", "4 stages".
std::string counted(int count, const std::string& noun, const std::string& plural = "s") {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : plural);
}

std::string percent(double part) { return format_line("%.1f%%", 100 * part); }

ordered_json stage_json(const PipelineReport& report, int stage) {
  const StageTimeline& line = report.equal.stages.at(static_cast<std::size_t>(stage));
  ordered_json chunks = ordered_json::array();
  for (const int chunk : chunks_of(report.stages, stage)) {
    chunks.push_back({{"chunk", chunk}, {"blocks", blocks_of(report.stages, chunk)}});
  }
  return {{"stage", stage},
          {"chunks", std::move(chunks)},
          {"flop_share", flop_share(report, stage)},
          {"in_flight", line.in_flight},
          {"kept", line.kept}};
}

}  // namespace

PipelineReport report_pipeline(const Inspection& inspection) {
  const Compiled& training = inspection.programs.training;
  const OpRegistry& ops = *inspection.setup.ops;
  PipelineReport report;
  report.stages = training.stages;
  report.costs = block_costs(training.graph, ops);
  report.micro_batches = training.programs.front().micro_batches;
  const std::vector<const Program*> programs = stage_programs(training, report.stages.axis);
  const auto simulate = [&](const TaskDuration& duration) {
    return simulate_programs(programs, report.stages.axis, duration);
  };
  report.equal = simulate(equal_durations(report.stages));
  report.flops = simulate(flop_durations(training.graph, ops, report.stages));
  return report;
}

void print_pipeline(std::ostream& out, const PipelineReport& report) {
  if (!report.stages.scheduler) return;
  out << "\npipeline along " << report.stages.axis << ": " << counted(report.stages.count, "stage") << ", "
      << counted(report.micro_batches, "micro-batch", "es") << '\n'
      << "stage  blocks                  FLOPs  in flight   kept\n";
  for (int stage = 0; stage < report.stages.count; ++stage) {
    const StageTimeline& line = report.equal.stages.at(static_cast<std::size_t>(stage));
    std::string blocks;
    for (const int chunk : chunks_of(report.stages, stage)) {
      blocks += (blocks.empty() ? "" : ", ") + block_list(blocks_of(report.stages, chunk));
    }
    out << std::left << std::setw(7) << stage << std::setw(20) << blocks << std::right << std::setw(9)
        << percent(flop_share(report, stage)) << std::setw(11) << line.in_flight << std::setw(7) << line.kept << '\n';
  }
  out << "bubble " << percent(report.equal.bubble_fraction()) << " of the work if chunks took the same time, "
      << percent(report.flops.bubble_fraction()) << " by FLOPs\n"
      << "in flight: micro-batches, once a chunk, from their forward to their backward pass; kept: to their weight "
      << "gradients\n";
}

ordered_json pipeline_json(const PipelineReport& report) {
  if (!report.stages.scheduler) return nullptr;
  ordered_json stages = ordered_json::array();
  for (int stage = 0; stage < report.stages.count; ++stage) stages.push_back(stage_json(report, stage));
  return {{"axis", report.stages.axis},
          {"stages", std::move(stages)},
          {"bubble_fraction", {{"equal", report.equal.bubble_fraction()}, {"flops", report.flops.bubble_fraction()}}}};
}

void write_timelines(const TimelineFiles& files, const PipelineReport& report, const std::string& run) {
  const Timeline& timeline = files.equal ? report.equal : report.flops;
  const std::string title = run + ", " + counted(report.stages.count, "stage") + ", " +
                            counted(report.micro_batches, "micro-batch", "es") + ", " +
                            (files.equal ? "equal chunks" : "chunks by FLOPs");
  if (!files.svg.empty()) write_named_file(files.svg, timeline_svg(timeline, title));
  if (!files.trace.empty()) write_named_file(files.trace, timeline_trace(timeline));
}

}  // namespace strata::host

#include "cli/run_report.hpp"

#include <fmt/format.h>

#include <iomanip>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/file_io.hpp"
#include "files/text_format.hpp"
#include "reports/program_summary.hpp"

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
    return fmt::format("{}-{}", blocks.front(), blocks.back());
  }
  return fmt::format("{}", fmt::join(blocks, ","));
}

/// A number with its noun: "1 stage", "4 stages".
std::string counted(int count, const std::string& noun, const std::string& plural = "s") {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : plural);
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

OffloadBytes of_fullest_rank(const TrainingPrograms& programs) {
  OffloadBytes fullest;
  for (const OffloadBytes& each : programs.planned_offload()) fullest = largest(fullest, each);
  return fullest;
}

std::string direction(const TransferSummary& summary) {
  return std::string(to_string(summary.from)) + " to " + std::string(to_string(summary.to));
}

}  // namespace

PipelineReport report_pipeline(const Inspection& inspection, bool draws) {
  const Compiled& training = inspection.programs.training;
  const OpRegistry& ops = *inspection.setup.ops;
  PipelineReport report;
  report.stages = training.stages;
  report.costs = block_costs(training.graph, ops);
  report.micro_batches = training.programs.front().micro_batches;
  const std::vector<const Program*> programs = stage_programs(training, report.stages.axis);
  const auto simulate = [&](const TaskDuration& duration) {
    return draws ? simulate_programs(programs, report.stages.axis, duration)
                 : summarize_programs(programs, report.stages.axis, duration);
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
  const std::string title =
      fmt::format("{}, {}, {}, {}", run, counted(report.stages.count, "stage"),
                  counted(report.micro_batches, "micro-batch", "es"), files.equal ? "equal chunks" : "chunks by FLOPs");
  if (!files.svg.empty()) write_named_file(files.svg, timeline_svg(timeline, title));
  if (!files.trace.empty()) write_named_file(files.trace, timeline_trace(timeline));
}

std::string describe_offload(const TrainingPrograms& programs) {
  const OffloadBytes bytes = of_fullest_rank(programs);
  std::string text;
  if (bytes.host > 0) text += ", " + short_bytes(bytes.host) + " of host memory";
  if (bytes.file > 0) text += ", " + short_bytes(bytes.file) + " in a file";
  return text;
}

void print_offload(std::ostream& out, const TrainingPrograms& programs) {
  const std::string bytes = describe_offload(programs);
  if (bytes.empty()) return;
  out << "\noffloaded by the rank with most: " << bytes.substr(2) << "\n";
  out << "transfers of a step   calls          bytes\n";
  for (const TransferSummary& each : summarize_transfers(programs.training.programs.front())) {
    out << std::left << std::setw(20) << direction(each) << std::right << std::setw(7) << each.calls << std::setw(15)
        << short_bytes(each.bytes) << '\n';
  }
}

ordered_json offload_json(const TrainingPrograms& programs) {
  ordered_json ranks = ordered_json::array();
  for (const OffloadBytes& each : programs.planned_offload()) {
    ranks.push_back({{"host_bytes", each.host}, {"file_bytes", each.file}});
  }
  ordered_json transfers = ordered_json::array();
  for (std::size_t i = 0; i < programs.training.programs.size(); ++i) {
    for (const TransferSummary& each : summarize_transfers(programs.training.programs[i])) {
      transfers.push_back({{"class", i},
                           {"from", to_string(each.from)},
                           {"to", to_string(each.to)},
                           {"calls", each.calls},
                           {"bytes", each.bytes}});
    }
  }
  return {{"ranks", ranks}, {"transfers", transfers}};
}

}  // namespace strata::host

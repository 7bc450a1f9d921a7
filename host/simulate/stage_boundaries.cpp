#include "simulate/stage_boundaries.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "simulate/instruction_times.hpp"
#include "simulate/short_step.hpp"

namespace strata::host {
namespace {

/// Splits that are simulated at most, and neighbours of one split.
constexpr std::size_t kMostSplits = 48;
constexpr std::size_t kNeighbours = 6;

constexpr ShortStep kShortStep{.planned = 2, .timed = 8};

/// The schedule of block_seconds(): one micro-batch goes forward through all chunks, and backward.
class ChunkByChunk final : public Strategy {
 public:
  explicit ChunkByChunk(std::vector<int> stage_of_chunk) : stage_of_chunk_(std::move(stage_of_chunk)) {}

  [[nodiscard]] std::vector<ScheduledTask> schedule(int stage, int micro_batches) const override {
    const int chunks = static_cast<int>(stage_of_chunk_.size());
    std::vector<ScheduledTask> tasks;
    const auto add = [&](Phase phase, int micro_batch, int chunk) {
      if (stage_of_chunk_[static_cast<std::size_t>(chunk)] == stage) tasks.push_back({phase, micro_batch, chunk});
    };
    for (int i = 0; i < micro_batches; ++i) {
      for (int chunk = 0; chunk < chunks; ++chunk) add(Phase::forward, i, chunk);
      for (int chunk = chunks; chunk-- > 0;) add(Phase::backward, i, chunk);
    }
    return tasks;
  }

 private:
  std::vector<int> stage_of_chunk_;
};

/// The stages with a chunk for each block.
Stages chunk_per_block(const Stages& stages) {
  Stages single;
  single.axis = stages.axis;
  single.count = stages.count;
  single.stage_of_chunk.clear();
  const int blocks = static_cast<int>(stages.chunk_of_block.size());
  for (int block = 0; block < blocks; ++block) {
    single.chunk_of_block.push_back(block);
    single.stage_of_chunk.push_back(block * stages.count / blocks);
  }
  single.scheduler = NamedStrategy{stages.scheduler->name, std::make_shared<ChunkByChunk>(single.stage_of_chunk)};
  return single;
}

ChunkBlocks blocks_of(const Stages& stages) {
  ChunkBlocks blocks(stages.stage_of_chunk.size());
  for (const int chunk : stages.chunk_of_block) ++blocks[static_cast<std::size_t>(chunk)];
  return blocks;
}

std::vector<int> chunk_of_block(const ChunkBlocks& blocks) {
  std::vector<int> chunks;
  for (std::size_t chunk = 0; chunk < blocks.size(); ++chunk) {
    chunks.insert(chunks.end(), static_cast<std::size_t>(blocks[chunk]), static_cast<int>(chunk));
  }
  return chunks;
}

}  // namespace

std::string split_text(const ChunkBlocks& blocks) {
  std::string text;
  for (const int count : blocks) text += (text.empty() ? "" : ",") + std::to_string(count);
  return text;
}

bool is_better(const SimulatedSplit& one, const SimulatedSplit& other) {
  if (one.excess_bytes != other.excess_bytes) return one.excess_bytes < other.excess_bytes;
  return one.step.seconds < other.step.seconds;
}

std::vector<double> block_seconds(CompileRequest request, const Cluster& cluster) {
  const Stages single = chunk_per_block(find_stages(request));
  request.stages = &single;
  request.global_batch = request.micro_batch * make_stack(request.strategies).replicas;
  request.packing = PackingEffort::none;
  const Compiled compiled = compile(request);
  std::vector<double> seconds(single.chunk_of_block.size());
  for (const TimedProgram& timed : time_programs(compiled, *request.registry, cluster).programs) {
    std::vector<double> own(seconds.size());
    for (std::size_t i = 0; i < timed.tasks.size(); ++i) {
      const Task& task = timed.program->tasks[i];
      if (task.kind == Task::Kind::prologue || task.kind == Task::Kind::epilogue) continue;
      for (std::size_t k = 0; k < task.instructions.size(); ++k) {
        const Instruction& each = task.instructions[k];
        if (is_communication(each) || each.is<Transfer>()) continue;
        own[static_cast<std::size_t>(task.chunk)] += timed.tasks[i][k].seconds;
      }
    }
    for (std::size_t i = 0; i < own.size(); ++i) seconds[i] = std::max(seconds[i], own[i]);
  }
  return seconds;
}

BoundarySearch::BoundarySearch(CompileRequest request, const Cluster& cluster, const std::vector<double>& seconds)
    : request_(std::move(request)), cluster_(cluster), seconds_(seconds), stages_(find_stages(request_)) {
  by_flops_ = blocks_of(stages_);
  balanced_ = place(seconds_);
  even_ = place(std::vector<double>(seconds_.size(), 1));
}

ChunkBlocks BoundarySearch::place(const std::vector<double>& costs) {
  std::vector<BlockCost> blocks;
  for (const double cost : costs) blocks.push_back({.block = static_cast<int>(blocks.size()), .forward_flops = cost});
  return blocks_of(place_blocks(blocks, make_stack(request_.strategies).mesh, request_.strategies));
}

template <class Predict>
SimulatedSplit BoundarySearch::predict(const ChunkBlocks& blocks, const Predict& step) {
  stages_.chunk_of_block = chunk_of_block(blocks);
  request_.stages = &stages_;
  SimulatedSplit split{blocks, step()};
  split.excess_bytes = split.step.excess_bytes(*request_.device, cluster_);
  return split;
}

const SimulatedSplit& BoundarySearch::simulate(const ChunkBlocks& blocks) {
  const auto found = known_.find(blocks);
  if (found != known_.end()) return found->second;
  const auto step = [&] { return simulate_short_step(request_, cluster_, stages_.count, kShortStep); };
  return known_.emplace(blocks, predict(blocks, step)).first->second;
}

SimulatedSplit BoundarySearch::whole(const ChunkBlocks& blocks) {
  return predict(blocks, [&] { return simulate_step(compile(request_), *request_.registry, cluster_); });
}

SimulatedSplit BoundarySearch::best() {
  SimulatedSplit best = even();
  const auto consider = [&](const ChunkBlocks& blocks) {
    const SimulatedSplit& split = simulate(blocks);
    if (!is_better(split, best)) return false;
    best = split;
    return true;
  };
  consider(balanced_);
  consider(by_flops_);
  for (bool has_improved = true; has_improved && known_.size() < kMostSplits;) {
    has_improved = false;
    for (const ChunkBlocks& each : neighbours(best)) has_improved = consider(each) || has_improved;
  }
  return best;
}

/// Smaller is tried earlier. A step that does not fit needs less on its fullest stage. Else the busiest stage should
/// have less to do, and the others alike.
std::vector<double> BoundarySearch::rank(const SimulatedSplit& split, const ChunkBlocks& next, std::size_t from,
                                         std::size_t to) const {
  const auto stage = [&](std::size_t chunk) { return static_cast<std::size_t>(stages_.stage_of_chunk[chunk]); };
  if (split.excess_bytes > 0) {
    const auto bytes = [&](std::size_t chunk) { return static_cast<double>(split.step.stage_bytes[stage(chunk)]); };
    return {-bytes(from), bytes(to)};
  }
  std::vector<double> busy(static_cast<std::size_t>(stages_.count));
  std::size_t block = 0;
  for (const int chunk : chunk_of_block(next)) busy[stage(static_cast<std::size_t>(chunk))] += seconds_[block++];
  double squares = 0;
  for (const double each : busy) squares += each * each;
  return {*std::ranges::max_element(busy), squares};
}

/// Splits that were not simulated, in which one chunk has a block less and another one more.
std::vector<ChunkBlocks> BoundarySearch::neighbours(const SimulatedSplit& split) const {
  std::vector<std::pair<std::vector<double>, ChunkBlocks>> ranked;
  for (std::size_t from = 0; from < split.blocks.size(); ++from) {
    if (split.blocks[from] == 1) continue;
    for (std::size_t to = 0; to < split.blocks.size(); ++to) {
      ChunkBlocks next = split.blocks;
      --next[from];
      ++next[to];
      if (!known_.contains(next)) ranked.emplace_back(rank(split, next, from, to), std::move(next));
    }
  }
  std::ranges::sort(ranked);
  std::vector<ChunkBlocks> found;
  for (std::size_t i = 0; i < std::min(kNeighbours, ranked.size()); ++i) found.push_back(std::move(ranked[i].second));
  return found;
}

}  // namespace strata::host

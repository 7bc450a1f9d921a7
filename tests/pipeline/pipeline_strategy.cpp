#include "pipeline_strategy.hpp"

#include <ostream>

namespace strata::testing {

std::ostream& operator<<(std::ostream& out, const PipelineCase& row) {
  return out << row.schedule << ", " << row.stages << " stages of " << row.virtual_stages << ", " << row.micro_batches
             << " micro-batches";
}

std::vector<PipelineCase> all_pipeline_cases() {
  std::vector<PipelineCase> rows;
  for (int stages = 1; stages <= 8; ++stages) {
    for (int micro_batches = 1; micro_batches <= 16; ++micro_batches) {
      for (const char* const schedule : {"naive", "gpipe", "1f1b", "zb-h1", "zbv"}) {
        rows.push_back({schedule, stages, 1, micro_batches});
      }
      for (int virtual_stages = 1; virtual_stages <= 4 && micro_batches % stages == 0; ++virtual_stages) {
        rows.push_back({"interleaved", stages, virtual_stages, micro_batches});
      }
    }
  }
  return rows;
}

std::unique_ptr<Strategy> PipelinePlugin::create_case(const PipelineCase& row) const {
  return create({{"size", std::int64_t{row.stages}},
                 {"schedule", row.schedule},
                 {"virtual_stages", std::int64_t{row.virtual_stages}}});
}

Placement place_one_block_a_chunk(const Strategy& strategy, const PipelineCase& row) {
  std::vector<BlockCost> blocks;
  for (int block = 0; block < row.chunks(); ++block) blocks.push_back({block, 1, 2, 0});
  return strategy.place(blocks).value();
}

std::vector<std::vector<host::TimedTask>> equal_work(const Strategy& strategy, const PipelineCase& row) {
  const double backward = place_one_block_a_chunk(strategy, row).splits_weight_gradients ? 1 : 2;
  std::vector<std::vector<host::TimedTask>> work(static_cast<std::size_t>(row.stages));
  for (int stage = 0; stage < row.stages; ++stage) {
    for (const ScheduledTask& task : strategy.schedule(stage, row.micro_batches)) {
      work[static_cast<std::size_t>(stage)].push_back({task, task.phase == Phase::backward ? backward : 1});
    }
  }
  return work;
}

host::WorkDependencies chain_dependencies(int chunks) {
  host::WorkDependencies dependencies;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (chunk > 0) dependencies[{Phase::forward, chunk}].push_back({Phase::forward, chunk - 1});
    dependencies[{Phase::backward, chunk}].push_back({Phase::forward, chunk});
    if (chunk + 1 < chunks) dependencies[{Phase::backward, chunk}].push_back({Phase::backward, chunk + 1});
    dependencies[{Phase::weight, chunk}].push_back({Phase::backward, chunk});
  }
  return dependencies;
}

host::Timeline equal_timeline(const Strategy& strategy, const PipelineCase& row) {
  return host::simulate_timeline(equal_work(strategy, row), chain_dependencies(row.chunks()));
}

}  // namespace strata::testing

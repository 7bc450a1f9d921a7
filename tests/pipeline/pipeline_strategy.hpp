#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reports/timeline.hpp"
#include "stacks/stack_configuration.hpp"
#include "strata/strategy.hpp"

namespace strata::testing {

/// One configuration of a pipeline.
struct PipelineCase {
  std::string schedule;
  int stages = 1;
  int virtual_stages = 1;
  int micro_batches = 1;

  [[nodiscard]] int chunks() const { return stages * (schedule == "zbv" ? 2 : virtual_stages); }
};

std::ostream& operator<<(std::ostream& out, const PipelineCase& row);

/// Every schedule with up to 8 stages and 16 micro-batches. "interleaved" has up to 4 chunks per stage if the
/// micro-batches fit.
[[nodiscard]] std::vector<PipelineCase> all_pipeline_cases();

/// The plugin as the host loads it.
class PipelinePlugin {
 public:
  PipelinePlugin() : factory_(plugins_.load<StrategyFactory>("pipeline")) {}

  [[nodiscard]] std::unique_ptr<Strategy> create(const std::map<std::string, OptionValue>& options) const {
    return factory_.create(Options(factory_.options(), options));
  }
  [[nodiscard]] std::unique_ptr<Strategy> create_case(const PipelineCase& row) const;

 private:
  BuiltPlugins plugins_;
  const StrategyFactory& factory_;
};

/// The strategy's placement of blocks of equal cost, one per chunk.
[[nodiscard]] Placement place_one_block_a_chunk(const Strategy& strategy, const PipelineCase& row);

/// The work of every stage if all chunks take the same time: forward 1 and backward 2, or 1 and 1 if weight gradients
/// are separate.
[[nodiscard]] std::vector<std::vector<host::TimedTask>> equal_work(const Strategy& strategy, const PipelineCase& row);

/// The dependencies of chunks that form a chain. Forward depends on the forward of the previous chunk. Backward depends
/// on the backward of the next chunk and on the forward of its own. Weight gradients depend on the backward of their
/// own chunk.
[[nodiscard]] host::WorkDependencies chain_dependencies(int chunks);

[[nodiscard]] host::Timeline equal_timeline(const Strategy& strategy, const PipelineCase& row);

}  // namespace strata::testing

/// Pipeline parallelism: consecutive blocks of the model are on consecutive ranks along one axis, the stages. The
/// micro-batches of a step follow each other through the stages.

#include <utility>

#include "settings.hpp"
#include "split.hpp"
#include "strata/strategy.hpp"

namespace pipeline {
namespace {

using namespace strata;

class Pipeline final : public Strategy {
 public:
  explicit Pipeline(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {{settings_.axis, settings_.stages}}; }

  [[nodiscard]] std::optional<Placement> place(const std::vector<BlockCost>& blocks) const override {
    Placement placement{.axis = settings_.axis,
                        .chunk_of_block = {},
                        .stage_of_chunk = settings_.schedule->stages_of_chunks(settings_.stages, settings_.chunks()),
                        .splits_weight_gradients = settings_.schedule->splits_weight_gradients};
    const std::vector<int> sizes = split_blocks(blocks, settings_);
    for (std::size_t chunk = 0; chunk < sizes.size(); ++chunk) {
      placement.chunk_of_block.insert(placement.chunk_of_block.end(), static_cast<std::size_t>(sizes[chunk]),
                                      static_cast<int>(chunk));
    }
    return placement;
  }

  [[nodiscard]] std::vector<ScheduledTask> schedule(int stage, int micro_batches) const override {
    return settings_.schedule->order({stage, settings_.stages, settings_.virtual_stages, micro_batches});
  }

 private:
  Settings settings_;
};

/// More chunks make the bubble little smaller, and messages more.
constexpr int kMostProposedChunks = 6;

class PipelineFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return option_schema(); }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<Pipeline>(settings_from(options));
  }
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::stages; }
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& context) const override {
    std::vector<PlanProposal> found;
    for (const int size : divisors(context.devices, context.blocks)) {
      const auto propose = [&](const char* schedule, int chunks) {
        std::map<std::string, OptionValue> options = {{"size", std::int64_t{size}}, {"schedule", schedule}};
        if (chunks > 1) options["virtual_stages"] = std::int64_t{chunks};
        found.push_back({std::move(options), size});
      };
      propose("1f1b", 1);
      propose("zb-h1", 1);
      if (2 * size <= context.blocks) propose("zbv", 1);
      for (int chunks = 2; chunks * size <= context.blocks && chunks <= kMostProposedChunks; ++chunks) {
        propose("interleaved", chunks);
      }
    }
    return found;
  }
};

}  // namespace
}  // namespace pipeline

STRATA_PLUGIN(strategy, "pipeline", "0.1.0", "Apache-2.0",
              "Pipeline: blocks over the ranks of one axis, micro-batches in a chosen order.",
              pipeline::PipelineFactory);

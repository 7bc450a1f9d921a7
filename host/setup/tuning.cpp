#include "setup/tuning.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cluster_file.hpp"
#include "files/text_format.hpp"
#include "simulate/described_device.hpp"
#include "simulate/prediction.hpp"
#include "simulate/stage_boundaries.hpp"

namespace strata::host {
namespace {

/// Alternatives whose boundaries are searched: the best with boundaries that balance the seconds of blocks, and as many
/// that do not fit with them.
constexpr std::size_t kSearched = 3;

using StrategyPlugin = ResolvedPlugin<StrategyFactory>;

/// One alternative, ready to be compiled.
struct Alternative {
  RunSetup setup;
  std::unique_ptr<Device> device;
  CompileRequest request;
  /// Null if the alternative gives the blocks of its chunks.
  std::unique_ptr<BoundarySearch> boundaries;
  SimulatedSplit split;
};

/// Decides the open options of one strategy.
class Tuning {
 public:
  Tuning(const RunSetup& setup, const StrategyPlugin& plugin, PluginRegistry& registry, const Cluster& cluster,
         DimSizes data)
      : setup_(setup), plugin_(plugin), registry_(registry), cluster_(cluster), data_(std::move(data)) {
    blocks_option_ = plugin.schema.find(OptionRole::chunk_blocks, OptionType::word);
  }

  [[nodiscard]] RunSetup decide(const std::vector<PlanProposal>& proposals) {
    for (const PlanProposal& each : proposals) add(each);
    if (alternatives_.empty())
      throw setup_.configuration.error(section().path, "no alternative is possible: " + refusal_);
    sort();
    for (Alternative* each : searched()) each->split = each->boundaries->best();
    sort();
    Alternative& best = finalist();
    RunConfiguration decided = setup_.configuration;
    std::map<std::string, OptionValue>& options = decided.strategies[table()].options;
    options = best.setup.configuration.strategies[table()].options;
    if (best.boundaries) options[blocks_option_->name] = split_text(best.split.blocks);
    RunSetup result = prepare(std::move(decided), registry_, setup_.initial);
    result.times = setup_.times;
    result.decisions = setup_.decisions;
    result.decisions.push_back(describe(options, best));
    return result;
  }

 private:
  [[nodiscard]] std::size_t table() const { return static_cast<std::size_t>(plugin_.origin.table); }
  [[nodiscard]] const PluginSection& section() const { return setup_.configuration.strategies[table()]; }

  /// The best first.
  void sort() {
    std::ranges::stable_sort(alternatives_,
                             [](const Alternative& a, const Alternative& b) { return is_better(a.split, b.split); });
  }

  /// The best of the first alternatives with all micro-batches, of which some schedules keep more in memory. Those that
  /// do not fit make room for others.
  [[nodiscard]] Alternative& finalist() {
    std::size_t fitting = 0;
    Alternative* best = nullptr;
    for (Alternative& each : alternatives_) {
      if (fitting == kSearched) break;
      if (each.boundaries) each.split = each.boundaries->whole(each.split.blocks);
      if (each.split.excess_bytes == 0) ++fitting;
      if (best == nullptr || is_better(each.split, best->split)) best = &each;
    }
    return *best;
  }

  /// The first alternatives, and those that would be faster if they fitted, whose boundaries are not given.
  [[nodiscard]] std::vector<Alternative*> searched() {
    std::vector<Alternative*> first;
    std::vector<Alternative*> larger;
    for (Alternative& each : alternatives_) {
      if (!each.boundaries) continue;
      if (first.size() < kSearched) {
        first.push_back(&each);
      } else if (each.split.excess_bytes > 0 && each.split.step.seconds < first.front()->split.step.seconds &&
                 larger.size() < kSearched) {
        larger.push_back(&each);
      }
    }
    first.insert(first.end(), larger.begin(), larger.end());
    return first;
  }

  /// Simulates an alternative with boundaries that suit it, unless it is refused.
  void add(const PlanProposal& proposal) {
    try {
      Alternative alternative = make(proposal);
      const CompileRequest& request = alternative.request;
      if (blocks_option_ != nullptr && !proposal.options.contains(blocks_option_->name)) {
        if (seconds_.empty()) seconds_ = block_seconds(request, cluster_);
        alternative.boundaries = std::make_unique<BoundarySearch>(request, cluster_, seconds_);
        alternative.split = alternative.boundaries->balanced();
      } else {
        alternative.split.step = simulate_step(compile(request), *request.registry, cluster_);
        alternative.split.excess_bytes = alternative.split.step.excess_bytes(*request.device, cluster_);
      }
      alternatives_.push_back(std::move(alternative));
    } catch (const ConfigurationError& error) {
      if (refusal_.empty()) refusal_ = error.what();
    }
  }

  [[nodiscard]] Alternative make(const PlanProposal& proposal) const {
    RunConfiguration configuration = setup_.configuration;
    // Neither is needed to compile.
    configuration.device.plugin.clear();
    configuration.communicator.plugin.clear();
    std::map<std::string, OptionValue>& options = configuration.strategies[table()].options;
    if (blocks_option_ != nullptr) options.erase(blocks_option_->name);
    for (const auto& [name, value] : proposal.options) options[name] = value;
    Alternative made;
    made.setup = prepare(std::move(configuration), registry_, setup_.initial);
    made.device = described_device(cluster_, made.setup.stack.mesh.rank_count(), *made.setup.ops);
    made.request = made.setup.request(GraphMode::training, made.setup.sizes(data_));
    made.request.device = made.device.get();
    made.request.is_trial = true;
    made.request.packing = PackingEffort::quick;
    return made;
  }

  /// "strategy 1 'pipeline' by simulation on lab: schedule = 1f1b, split = 3,4,4,3; 12.3 ms per step, 13.1 ms with even
  /// chunks"
  [[nodiscard]] std::string describe(const std::map<std::string, OptionValue>& options, Alternative& best) const {
    std::string text;
    for (const auto& [name, value] : options) {
      if (section().options.at(name) != value) text += (text.empty() ? "" : ", ") + name + " = " + to_string(value);
    }
    text = plugin_.origin.label + " by simulation on " + cluster_.name + ": " + text + "; " +
           step_duration(best.split.step.seconds) + " a step";
    if (!best.boundaries) return text;
    const SimulatedSplit even = best.boundaries->whole(best.boundaries->even().blocks);
    return text + ", " + step_duration(even.step.seconds) + " with even chunks";
  }

  const RunSetup& setup_;
  const StrategyPlugin& plugin_;
  PluginRegistry& registry_;
  const Cluster& cluster_;
  DimSizes data_;
  const OptionSpecification* blocks_option_ = nullptr;
  /// Of each block, found with the first alternative.
  std::vector<double> seconds_;
  std::vector<Alternative> alternatives_;
  /// Why the first alternative that was refused cannot exist.
  std::string refusal_;
};

const TunableStrategyFactory* tunable(const StrategyPlugin& plugin) {
  const auto* factory = dynamic_cast<const TunableStrategyFactory*>(plugin.factory);
  const auto is_open = [&] { return factory->leaves_open(plugin.options); };
  return factory != nullptr && call_plugin(plugin.origin, "leaves_open", is_open) ? factory : nullptr;
}

Cluster cluster_of(const RunConfiguration& configuration, const StrategyPlugin& plugin) {
  if (configuration.cluster.table != nullptr) return read_cluster(*configuration.cluster.table);
  throw configuration.error(section_of(configuration, plugin.origin).path,
                            "'" + section_of(configuration, plugin.origin).plugin +
                                "' has options that are chosen by simulation, and there is no cluster; accepted with a "
                                "table [cluster] in the configuration, or with --cluster");
}

std::vector<PlanProposal> alternatives_of(const RunSetup& setup, const StrategyPlugin& plugin,
                                          const TunableStrategyFactory& factory, const DimSizes& data) {
  const Graph graph = forward_graph(setup.request(GraphMode::training, setup.sizes(data)));
  PlanningContext context;
  for (const MeshAxis& axis : setup.stack.axes[static_cast<std::size_t>(plugin.origin.table)]) {
    context.devices *= axis.size;
  }
  context.devices_per_node = context.devices;
  context.blocks = graph.block_count();
  context.sizes = graph.sizes;
  context.global_batch = setup.configuration.batch.global;
  return with_places(setup.configuration, [&] {
    return call_plugin(plugin.origin, "alternatives", [&] { return factory.alternatives(plugin.options, context); });
  });
}

}  // namespace

void tune(RunSetup& setup, PluginRegistry& registry, std::optional<Cluster> cluster,
          const std::optional<DimSizes>& data) {
  for (std::size_t i = 0; i < setup.plugins.strategies.size(); ++i) {
    const StrategyPlugin& plugin = setup.plugins.strategies[i];
    const TunableStrategyFactory* factory = tunable(plugin);
    if (factory == nullptr) continue;
    if (!cluster) cluster = cluster_of(setup.configuration, plugin);
    static_cast<void>(cluster->group_of(setup.stack.mesh.rank_count() - 1));
    const DimSizes sizes = data ? *data : setup.data_sizes(std::nullopt);
    RunSetup decided =
        Tuning(setup, plugin, registry, *cluster, sizes).decide(alternatives_of(setup, plugin, *factory, sizes));
    setup = std::move(decided);
  }
}

}  // namespace strata::host

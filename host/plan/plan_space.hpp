#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "config/run_configuration.hpp"
#include "loading/plugin_registry.hpp"
#include "setup/run_setup.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// What a user demands of a plan.
struct PlanDemands {
  /// "tensor=8": the plan has the strategy with as many ranks. "zero.stage=3": with this option.
  std::vector<std::string> fixed = {};
  /// Strategies that the plan must not have.
  std::vector<std::string> never = {};
  /// How many devices every plan uses, the first of the cluster. 0: planned_devices().
  int devices = 0;
};

/// All devices of the cluster; on one machine whose ranks share cores, one for each core.
[[nodiscard]] int planned_devices(const Cluster& cluster);

/// A strategy of a plan: the plugin and one of its proposals.
struct PlanPart {
  std::string plugin;
  /// The factory's. The registry owns it.
  const OptionSchema* schema = nullptr;
  PlanProposal proposal;

  /// True for the option that gives the axis its ranks.
  [[nodiscard]] bool is_size(const std::string& option) const;
  /// The strategy in words: "tensor 8 sequence_parallel=true".
  [[nodiscard]] std::string text() const;
};

/// One plan: positions in the lists of PlanSpace::parts(). It orders and compares, so that it can be a key.
struct PlanChoice {
  /// By purpose, the position among the parts; -1: none. The parts of PlanPurpose::replicas depend on the others.
  std::map<PlanPurpose, int> parts;
  /// The positions of parts of PlanPurpose::refinement, ascending.
  std::set<int> refinements = {};
  std::int64_t micro_batch = 1;
  /// True: replicas lie outside of stages in the mesh.
  bool replicas_outermost = false;
  /// The number of blocks of each chunk. Empty: the strategy of the stages decides.
  std::vector<int> chunk_blocks = {};

  /// The position of the purpose's part; -1: none.
  [[nodiscard]] int position(PlanPurpose purpose) const {
    const auto found = parts.find(purpose);
    return found == parts.end() ? -1 : found->second;
  }
  auto operator<=>(const PlanChoice&) const = default;
};

/// All plans of a configuration on a cluster: combinations of what the installed strategies propose.
class PlanSpace {
 public:
  /// Removes the strategies that the planner chooses from `configuration`. The others stay in every plan. `vocab`: as
  /// RunSetup::data_sizes(). \throws ConfigurationError if a demand names an unknown strategy, or nothing meets it.
  PlanSpace(RunConfiguration configuration, PluginRegistry& registry, const Cluster& cluster,
            std::optional<std::int64_t> vocab, PlanDemands demands);

  /// How many devices every plan uses.
  [[nodiscard]] int devices() const { return devices_; }
  /// The demands as on the command line: "--fix tensor=8, --never pipeline". Empty: there are none.
  [[nodiscard]] std::string demands() const;
  /// Of them, the ranks of the strategies that stay in every plan.
  [[nodiscard]] int kept_ranks() const { return kept_ranks_; }
  /// The sizes that the data fixes.
  [[nodiscard]] const DimSizes& data() const { return data_; }
  /// What the loss sums over, in the singular: "token".
  [[nodiscard]] const std::string& unit() const { return unit_; }
  /// What may fill a purpose, beside the other parts of the choice.
  [[nodiscard]] std::vector<PlanPart> parts(PlanPurpose purpose, const PlanChoice& choice) const;
  /// True if a plan must have a part of the purpose.
  [[nodiscard]] bool is_required(PlanPurpose purpose) const;
  /// Groups of ranks among which the choice deals the layers; 1: it does not.
  [[nodiscard]] int stages(const PlanChoice& choice) const;
  /// The option that takes the blocks of the choice's chunks (OptionRole::chunk_blocks). Null: there is none, or the
  /// proposal has a value for it.
  [[nodiscard]] const OptionSpecification* chunk_blocks_option(const PlanChoice& choice) const;
  /// Position of the purpose's strategy among the [[strategy]] tables of configuration(); -1: none.
  [[nodiscard]] static int table(const PlanChoice& choice, PlanPurpose purpose);
  /// Devices that the parts other than replicas, and the strategies that stay, leave to replicas. 0: their sizes do not
  /// divide the devices.
  [[nodiscard]] int replicas(const PlanChoice& choice) const;
  /// Sizes of a micro-batch with which the choice's replicas divide the global batch.
  [[nodiscard]] std::vector<std::int64_t> micro_batches(const PlanChoice& choice) const;
  /// True if the order of the mesh matters: the choice has stages and replicas, on several nodes.
  [[nodiscard]] bool has_orders(const PlanChoice& choice) const;
  /// The combinations of strategies and sizes, one choice for each: the first proposal of each size, and one sample per
  /// micro-batch.
  [[nodiscard]] std::vector<PlanChoice> structures() const;
  /// The configuration of a plan.
  [[nodiscard]] RunConfiguration configuration(const PlanChoice& choice) const;
  /// The plan's plugins and objects, for programs that only are compiled. It has neither device nor communicator.
  [[nodiscard]] RunSetup prepare_trial(const PlanChoice& choice, PluginRegistry& registry) const;
  /// The strategies of a plan, in mesh order.
  [[nodiscard]] std::vector<PlanPart> chosen(const PlanChoice& choice) const;
  /// The plan in words: "zero 16 stage=1 · tensor 8 · micro-batch 2".
  [[nodiscard]] std::string text(const PlanChoice& choice) const;

 private:
  struct Proposer {
    std::string plugin;
    PlanPurpose purpose;
    const StrategyFactory* factory;
    PluginOrigin origin;
  };
  /// A demand of PlanDemands::fixed.
  struct Fixed {
    std::string text;
    std::string plugin;
    std::string option;  ///< empty: the number of ranks
    std::string value;
    /// That of the plugin.
    PlanPurpose purpose;
  };

  /// Takes the ranks of the strategies that stay in every plan from the devices of the others.
  void take_kept_ranks(const Stack& kept);
  /// The purposes that have a part, in mesh order.
  [[nodiscard]] static std::vector<PlanPurpose> order(const PlanChoice& choice);
  /// The axes of the choice's parts for `purposes`.
  [[nodiscard]] std::map<Axis, PlanPurpose> axes(std::span<const PlanPurpose> purposes, const PlanChoice& choice) const;
  /// What those that propose for the purpose propose.
  [[nodiscard]] std::vector<PlanPart> proposed(PlanPurpose purpose, const PlanningContext& context) const;
  [[nodiscard]] std::vector<PlanPart> ask(const Proposer& proposer, const PlanningContext& context) const;
  [[nodiscard]] const PlanPart* part(PlanPurpose purpose, const PlanChoice& choice) const;
  [[nodiscard]] RunConfiguration configuration(const PlanChoice& choice, RunConfiguration base) const;
  [[nodiscard]] const Proposer& proposer(const std::string& plugin, const std::string& option) const;
  [[nodiscard]] Fixed parse_fixed(const std::string& text) const;
  /// \throws ConfigurationError if two demands exclude each other.
  void check_demands() const;
  [[nodiscard]] static bool meets(const PlanPart& part, const Fixed& fixed);

  RunConfiguration base_;
  /// Of the trials: the base with the model of the values from which training starts, opened once.
  RunConfiguration trial_base_;
  std::shared_ptr<const CheckpointReader> initial_;
  std::vector<std::string> never_;
  std::vector<Fixed> fixed_;
  int devices_ = 1;
  /// Ranks and replicas of the strategies that stay in every plan.
  int kept_ranks_ = 1;
  std::int64_t kept_replicas_ = 1;
  /// Samples of a micro-batch on all replicas that every plan keeps, because the model takes their statistics. 0: any.
  std::int64_t joint_samples_ = 0;
  /// What the other strategies have. Its devices are those that the kept ones leave.
  PlanningContext context_;
  /// For a batch of one sample.
  Graph graph_;
  DimSizes data_;
  std::string unit_;
  std::vector<Proposer> proposers_;
  std::map<PlanPurpose, std::vector<PlanPart>> parts_;
};

}  // namespace strata::host

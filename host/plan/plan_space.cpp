#include "plan/plan_space.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "files/text_format.hpp"
#include "huggingface/initial_values.hpp"
#include "loading/plugin_call.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The purposes that use ranks, besides replicas.
constexpr PlanPurpose kDividing[] = {PlanPurpose::stages, PlanPurpose::sequence, PlanPurpose::tensors};

/// A demand "tensor=8" or "zero.stage=3" of --fix.
struct Fixed {
  std::string plugin;
  std::string option;  ///< empty: the number of ranks
  std::string value;
};

Fixed parse_fixed(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw ConfigurationError("--fix: found '" + text +
                             "'; accepted: STRATEGY=RANKS or STRATEGY.OPTION=VALUE, such as tensor=8 or zero.stage=3");
  }
  const std::string name = text.substr(0, equals);
  const std::size_t dot = name.find('.');
  return {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1), text.substr(equals + 1)};
}

/// True if the proposal of the demand's strategy meets the demand.
bool meets(const PlanProposal& proposal, const OptionSchema& schema, const Fixed& fixed) {
  if (fixed.option.empty()) return std::to_string(proposal.ranks) == fixed.value;
  const OptionSpecification* option = schema.find(fixed.option);
  if (option == nullptr) {
    throw ConfigurationError("--fix: " + fixed.plugin + " has no option '" + fixed.option + "'");
  }
  const auto found = proposal.options.find(fixed.option);
  const auto& value = found != proposal.options.end() ? found->second : option->default_value.value_or(OptionValue{});
  const std::string text = to_string(value);
  return text == fixed.value || text == "\"" + fixed.value + "\"";
}

/// All devices of the cluster; on one machine whose ranks share cores, a rank for each core.
int planned_devices(const Cluster& cluster) {
  const NodeGroup& first = cluster.groups.front();
  const bool is_one_node = cluster.groups.size() == 1 && first.nodes == 1;
  return is_one_node && first.cores > 0 ? std::min(first.cores, first.devices) : cluster.devices();
}

/// The ranks of the proposals, for messages.
std::string sizes_of(const std::vector<PlanPart>& parts) {
  std::set<int> sizes;
  for (const PlanPart& part : parts) sizes.insert(part.proposal.ranks);
  std::vector<std::string> words;
  for (const int size : sizes) words.push_back(std::to_string(size));
  return join(words, ", ");
}

}  // namespace

bool PlanPart::is_size(const std::string& option) const {
  const OptionSpecification* found = schema->find(option);
  return found != nullptr && found->role == OptionRole::axis_size;
}

std::string PlanPart::text() const {
  std::string text = plugin;
  if (proposal.ranks > 1) text += " " + std::to_string(proposal.ranks);
  for (const auto& [name, value] : proposal.options) {
    if (is_size(name)) continue;
    const auto* word = std::get_if<std::string>(&value);
    text += " " + name + "=" + (word != nullptr ? *word : to_string(value));
  }
  return text;
}

PlanSpace::PlanSpace(RunConfiguration configuration, PluginRegistry& registry, const Cluster& cluster,
                     std::optional<std::int64_t> vocab, PlanDemands demands)
    : base_(std::move(configuration)), demands_(std::move(demands)) {
  context_.devices = planned_devices(cluster);
  context_.devices_per_node = std::min(cluster.groups.front().devices, context_.devices);
  context_.global_batch = base_.batch.global;
  for (const PluginFile& file : registry.files()) {
    if (!file.refusal.empty() || file.description->kind != PluginKind::strategy) continue;
    const std::string& name = file.description->name;
    const auto& factory = registry.load<StrategyFactory>(name);
    const PluginOrigin origin{PluginKind::strategy, -1, "strategy '" + name + "'"};
    const PlanPurpose purpose = call_plugin(origin, "plan_purpose", [&] { return factory.plan_purpose(); });
    if (purpose == PlanPurpose::none) continue;
    proposers_.push_back({name, purpose, &factory, {}});
    std::erase_if(base_.strategies, [&](const PluginSection& each) { return each.plugin == name; });
  }
  require_demands();
  RunConfiguration alone = base_;
  alone.batch.global = alone.batch.micro = 1;
  alone.device.plugin.clear();
  alone.communicator.plugin.clear();
  const RunSetup setup = prepare_run(alone, registry);
  data_ = vocab ? setup.data_sizes(*vocab) : setup.open_data().sizes();
  unit_ = setup.unit;
  const Graph graph = forward_graph(setup.request(GraphMode::training, setup.sizes(data_)));
  context_.blocks = graph.block_count();
  context_.sizes = graph.sizes;
  for (const Proposer& proposer : proposers_) {
    if (proposer.purpose == PlanPurpose::replicas) continue;
    std::vector<PlanPart>& parts = parts_[proposer.purpose];
    for (PlanPart& part : ask(proposer, context_)) parts.push_back(std::move(part));
  }
}

void PlanSpace::require_demands() const {
  std::vector<std::string> names;
  for (const Proposer& each : proposers_) names.push_back(each.plugin);
  const auto require = [&](const char* option, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    throw ConfigurationError(std::string(option) + ": found '" + name + "'; accepted: " + join(names, ", "));
  };
  for (const std::string& each : demands_.fixed) require("--fix", parse_fixed(each).plugin);
  for (const std::string& each : demands_.never) require("--never", each);
}

std::vector<PlanPart> PlanSpace::ask(const Proposer& proposer, const PlanningContext& context) const {
  if (std::find(demands_.never.begin(), demands_.never.end(), proposer.plugin) != demands_.never.end()) return {};
  const PluginOrigin origin{PluginKind::strategy, -1, "strategy '" + proposer.plugin + "'"};
  std::vector<PlanPart> parts;
  for (PlanProposal& proposal :
       call_plugin(origin, "proposals", [&] { return proposer.factory->proposals(context); })) {
    parts.push_back({proposer.plugin, &proposer.factory->options(), std::move(proposal)});
  }
  for (const std::string& text : demands_.fixed) {
    const Fixed fixed = parse_fixed(text);
    const bool is_own = fixed.plugin == proposer.plugin;
    const bool is_rival = std::any_of(proposers_.begin(), proposers_.end(), [&](const Proposer& each) {
      return each.plugin == fixed.plugin && each.purpose == proposer.purpose && !is_own;
    });
    if (is_rival) return {};
    if (!is_own) continue;
    const std::string sizes = sizes_of(parts);
    std::erase_if(parts,
                  [&](const PlanPart& part) { return !meets(part.proposal, proposer.factory->options(), fixed); });
    if (parts.empty() && proposer.purpose != PlanPurpose::replicas) {
      throw ConfigurationError("--fix: found '" + text + "', which no proposal of " + proposer.plugin +
                               " meets; it proposes " + (sizes.empty() ? "nothing" : sizes + " ranks"));
    }
  }
  return parts;
}

std::vector<PlanPart> PlanSpace::parts(PlanPurpose purpose, const PlanChoice& choice) const {
  if (purpose != PlanPurpose::replicas) {
    const auto found = parts_.find(purpose);
    return found == parts_.end() ? std::vector<PlanPart>{} : found->second;
  }
  PlanningContext context = context_;
  context.devices = replicas(choice);
  if (context.devices <= 1) return {};
  int neighbours = 1;  // ranks that lie between two replicas
  for (const PlanPurpose each : kDividing) {
    const PlanPart* other = part(each, choice);
    if (other == nullptr) continue;
    if (each != PlanPurpose::stages) neighbours *= other->proposal.ranks;
    const OptionSpecification* axis = other->schema->find(OptionRole::axis_name, OptionType::word);
    if (axis == nullptr) continue;
    const auto named = other->proposal.options.find(axis->name);
    const OptionValue value = named != other->proposal.options.end() ? named->second : axis->default_value.value();
    context.axes[std::get<std::string>(value)] = each;
  }
  context.devices_per_node = std::max(context_.devices_per_node / neighbours, 1);
  std::vector<PlanPart> found;
  for (const Proposer& proposer : proposers_) {
    if (proposer.purpose != PlanPurpose::replicas) continue;
    for (PlanPart& each : ask(proposer, context)) found.push_back(std::move(each));
  }
  return found;
}

bool PlanSpace::is_required(PlanPurpose purpose) const {
  return std::any_of(demands_.fixed.begin(), demands_.fixed.end(), [&](const std::string& text) {
    const Fixed fixed = parse_fixed(text);
    return std::any_of(proposers_.begin(), proposers_.end(),
                       [&](const Proposer& each) { return each.plugin == fixed.plugin && each.purpose == purpose; });
  });
}

const PlanPart* PlanSpace::part(PlanPurpose purpose, const PlanChoice& choice) const {
  const auto position = choice.parts.find(purpose);
  if (position == choice.parts.end() || position->second < 0) return nullptr;
  return &parts_.at(purpose).at(static_cast<std::size_t>(position->second));
}

int PlanSpace::replicas(const PlanChoice& choice) const {
  int left = context_.devices;
  for (const PlanPurpose purpose : kDividing) {
    const PlanPart* each = part(purpose, choice);
    if (each == nullptr) continue;
    if (left % each->proposal.ranks != 0) return 0;
    left /= each->proposal.ranks;
  }
  return left;
}

std::vector<std::int64_t> PlanSpace::micro_batches(const PlanChoice& choice) const {
  std::vector<std::int64_t> sizes;
  const int ranks = replicas(choice);
  for (std::int64_t size = 1; size * ranks <= base_.batch.global; size *= 2) {
    if (base_.batch.global % (size * ranks) == 0) sizes.push_back(size);
  }
  return sizes;
}

std::vector<PlanChoice> PlanSpace::structures() const {
  std::vector<PlanChoice> found = {PlanChoice{}};
  for (const PlanPurpose purpose : kDividing) {
    std::vector<PlanChoice> longer;
    for (const PlanChoice& choice : found) {
      if (!is_required(purpose)) longer.push_back(choice);
      std::set<int> seen;
      const std::vector<PlanPart> all = parts(purpose, choice);
      for (int i = 0; i < static_cast<int>(all.size()); ++i) {
        if (!seen.insert(all[static_cast<std::size_t>(i)].proposal.ranks).second) continue;
        longer.push_back(choice);
        longer.back().parts[purpose] = i;
      }
    }
    found = std::move(longer);
  }
  std::erase_if(found, [&](const PlanChoice& choice) {
    return replicas(choice) == 0 || micro_batches(choice).empty() ||
           (is_required(PlanPurpose::replicas) && parts(PlanPurpose::replicas, choice).empty());
  });
  return found;
}

std::vector<PlanPart> PlanSpace::chosen(const PlanChoice& choice) const {
  std::vector<PlanPart> found;
  const auto add = [&](PlanPurpose purpose) {
    const auto position = choice.parts.find(purpose);
    if (position == choice.parts.end() || position->second < 0) return;
    found.push_back(parts(purpose, choice).at(static_cast<std::size_t>(position->second)));
  };
  add(choice.replicas_outermost ? PlanPurpose::replicas : PlanPurpose::stages);
  add(choice.replicas_outermost ? PlanPurpose::stages : PlanPurpose::replicas);
  add(PlanPurpose::sequence);
  add(PlanPurpose::tensors);
  add(PlanPurpose::memory);
  return found;
}

RunConfiguration PlanSpace::configuration(const PlanChoice& choice) const {
  RunConfiguration plan = base_;
  plan.batch.micro = choice.micro_batch;
  plan.strategies.clear();
  for (const PlanPart& each : chosen(choice)) {
    plan.strategies.push_back(
        {"strategy." + std::to_string(plan.strategies.size()), each.plugin, each.proposal.options});
  }
  for (PluginSection kept : base_.strategies) {
    kept.path = "strategy." + std::to_string(plan.strategies.size());
    plan.strategies.push_back(std::move(kept));
  }
  return plan;
}

bool PlanSpace::has_orders(const PlanChoice& choice) const {
  const auto has = [&](PlanPurpose purpose) {
    const auto found = choice.parts.find(purpose);
    return found != choice.parts.end() && found->second >= 0;
  };
  return context_.devices > context_.devices_per_node && has(PlanPurpose::stages) && has(PlanPurpose::replicas);
}

std::string PlanSpace::text(const PlanChoice& choice) const {
  std::string text;
  for (const PlanPart& each : chosen(choice)) text += each.text() + " · ";
  return text + "micro-batch " + std::to_string(choice.micro_batch);
}

}  // namespace strata::host

#include "plan/plan_space.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/graph/batch_statistic.hpp"
#include "huggingface/initial_values.hpp"
#include "loading/plugin_call.hpp"
#include "simulate/stage_boundaries.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The purposes that use ranks, besides replicas.
constexpr PlanPurpose kDividing[] = {PlanPurpose::stages, PlanPurpose::sequence, PlanPurpose::tensors};

/// The purposes whose proposals do not depend on the other parts of a plan.
constexpr PlanPurpose kOfTheirOwn[] = {PlanPurpose::stages, PlanPurpose::sequence, PlanPurpose::tensors,
                                       PlanPurpose::memory};
/// The purposes whose strategies have axes.
constexpr PlanPurpose kWithAxes[] = {PlanPurpose::stages, PlanPurpose::replicas, PlanPurpose::sequence,
                                     PlanPurpose::tensors};

/// The value as --fix and the texts of plans have it: a word without quotation marks.
std::string plain_text(const OptionValue& value) {
  const auto* word = std::get_if<std::string>(&value);
  return word != nullptr ? *word : to_string(value);
}

/// The part's value of an option, as plain_text(). Empty: the option has none.
std::string option_text(const PlanPart& part, const std::string& option) {
  const auto found = part.proposal.options.find(option);
  if (found != part.proposal.options.end()) return plain_text(found->second);
  const auto& otherwise = part.schema->find(option)->default_value;
  return otherwise ? plain_text(*otherwise) : "";
}

/// The ranks of the proposals, or their values of an option, for messages.
std::string offers_of(const std::vector<PlanPart>& parts, const std::string& option) {
  if (parts.empty()) return "nothing";
  std::vector<std::string> words;
  if (option.empty()) {
    std::set<int> sizes;
    for (const PlanPart& part : parts) sizes.insert(part.proposal.ranks);
    for (const int size : sizes) words.push_back(std::to_string(size));
    return join(words, ", ") + " ranks";
  }
  std::set<std::string> values;
  for (const PlanPart& part : parts) values.insert(option_text(part, option));
  words.assign(values.begin(), values.end());
  return option + "=" + join(words, ", ");
}

/// True if results depend on the samples that a micro-batch has on all replicas: the model has a batch norm, or a loss
/// depends on a value of all samples, such as a mean over them.
bool has_batch_statistics(Graph graph) {
  const bool has_norm = std::ranges::any_of(graph.parameters, [](const Parameter& each) {
    return each.role == ParameterRole::running_average && each.sign_step == 0;
  });
  if (has_norm) return true;
  std::erase_if(graph.sinks, [](const Sink& sink) { return sink.kind != Sink::Kind::loss; });
  graph.remove_dead_nodes();
  return find_batch_statistic(graph) != nullptr;
}

}  // namespace

int planned_devices(const Cluster& cluster) {
  const NodeGroup& first = cluster.groups.front();
  const bool is_one_node = cluster.groups.size() == 1 && first.nodes == 1;
  return is_one_node && first.cores > 0 ? std::min(first.cores, first.devices) : cluster.devices();
}

bool PlanPart::is_size(const std::string& option) const {
  const OptionSpecification* found = schema->find(option);
  return found != nullptr && found->role == OptionRole::axis_size;
}

std::string PlanPart::text() const {
  std::string text = plugin;
  if (proposal.ranks > 1) text += " " + std::to_string(proposal.ranks);
  for (const auto& [name, value] : proposal.options) {
    if (is_size(name)) continue;
    text += " " + name + "=" + plain_text(value);
  }
  return text;
}

PlanSpace::PlanSpace(RunConfiguration configuration, PluginRegistry& registry, const Cluster& cluster,
                     std::optional<std::int64_t> vocab, PlanDemands demands)
    : base_(std::move(configuration)), never_(std::move(demands.never)) {
  devices_ = demands.devices > 0 ? demands.devices : planned_devices(cluster);
  context_.devices = devices_;
  context_.devices_per_node = std::min(cluster.groups.front().devices, devices_);
  context_.global_batch = base_.batch.global;
  RunConfiguration given = base_;
  for (const PluginDescription& plugin : registry.acceptable(PluginKind::strategy)) {
    const std::string& name = plugin.name;
    const auto& factory = registry.load<StrategyFactory>(name);
    const PluginOrigin origin = origin_of(PluginKind::strategy, name);
    const PlanPurpose purpose = call_plugin(origin, "plan_purpose", [&] { return factory.plan_purpose(); });
    if (purpose == PlanPurpose::none) continue;
    proposers_.push_back({name, purpose, &factory, origin});
    std::erase_if(base_.strategies, [&](const PluginSection& each) { return each.plugin == name; });
  }
  for (const std::string& each : demands.fixed) fixed_.push_back(parse_fixed(each));
  for (const std::string& each : never_) static_cast<void>(proposer(each, "--never"));
  check_demands();
  trial_base_ = base_;
  trial_base_.batch.micro = 1;
  for (RunConfiguration* each : {&trial_base_, &given}) {
    each->device.plugin.clear();
    each->communicator.plugin.clear();
  }
  const RunSetup setup = prepare_run(trial_base_, registry);
  initial_ = setup.initial;
  trial_base_ = setup.configuration;
  trial_base_.batch = base_.batch;
  take_kept_ranks(setup.stack);
  data_ = setup.data_sizes(vocab);
  unit_ = setup.unit;
  graph_ = forward_graph(setup.request(GraphMode::training, setup.sizes(data_)));
  if (has_batch_statistics(graph_)) joint_samples_ = given.batch.micro * prepare_run(given, registry).stack.replicas;
  context_.blocks = graph_.block_count();
  context_.sizes = graph_.sizes;
  for (const PlanPurpose purpose : kOfTheirOwn) parts_[purpose] = proposed(purpose, context_);
}

void PlanSpace::take_kept_ranks(const Stack& kept) {
  kept_ranks_ = kept.mesh.rank_count();
  kept_replicas_ = kept.replicas;
  // They are innermost in the mesh.
  context_.devices = std::max(context_.devices / kept_ranks_, 1);
  context_.devices_per_node = std::max(context_.devices_per_node / kept_ranks_, 1);
}

const PlanSpace::Proposer& PlanSpace::proposer(const std::string& plugin, const std::string& option) const {
  std::vector<std::string> names;
  for (const Proposer& each : proposers_) {
    if (each.plugin == plugin) return each;
    names.push_back(each.plugin);
  }
  throw ConfigurationError(option + ": found '" + plugin + "'; accepted: " + join(names, ", "));
}

PlanSpace::Fixed PlanSpace::parse_fixed(const std::string& text) const {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw ConfigurationError("--fix: found '" + text +
                             "'; accepted: STRATEGY=RANKS or STRATEGY.OPTION=VALUE, such as tensor=8 or zero.stage=3");
  }
  const std::string name = text.substr(0, equals);
  const std::size_t dot = name.find('.');
  Fixed fixed{text, name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1), text.substr(equals + 1),
              PlanPurpose::none};
  const Proposer& owner = proposer(fixed.plugin, "--fix");
  fixed.purpose = owner.purpose;
  if (!fixed.option.empty() && owner.factory->options().find(fixed.option) == nullptr) {
    throw ConfigurationError("--fix: " + fixed.plugin + " has no option '" + fixed.option + "'");
  }
  return fixed;
}

void PlanSpace::check_demands() const {
  const auto refuse = [](const Fixed& fixed, const std::string& other) {
    throw ConfigurationError("--fix: found '" + fixed.text + "' beside " + other + "; accepted: one of the two");
  };
  for (const Fixed& fixed : fixed_) {
    if (std::ranges::find(never_, fixed.plugin) != never_.end()) refuse(fixed, "--never " + fixed.plugin);
    for (const Fixed& other : fixed_) {
      if (other.purpose == fixed.purpose && other.plugin != fixed.plugin) refuse(fixed, "'" + other.text + "'");
    }
  }
}

std::string PlanSpace::demands() const {
  std::vector<std::string> words;
  for (const Fixed& fixed : fixed_) words.push_back("--fix " + fixed.text);
  for (const std::string& plugin : never_) words.push_back("--never " + plugin);
  return join(words, ", ");
}

bool PlanSpace::meets(const PlanPart& part, const Fixed& fixed) {
  if (fixed.option.empty()) return std::to_string(part.proposal.ranks) == fixed.value;
  return option_text(part, fixed.option) == fixed.value;
}

std::vector<PlanPart> PlanSpace::ask(const Proposer& proposer, const PlanningContext& context) const {
  if (std::ranges::find(never_, proposer.plugin) != never_.end()) return {};
  std::vector<PlanPart> parts;
  for (PlanProposal& proposal :
       call_plugin(proposer.origin, "proposals", [&] { return proposer.factory->proposals(context); })) {
    parts.push_back({proposer.plugin, &proposer.factory->options(), std::move(proposal)});
  }
  for (const Fixed& fixed : fixed_) {
    if (fixed.purpose != proposer.purpose) continue;
    if (fixed.plugin != proposer.plugin) return {};
    const auto is_other = [&](const PlanPart& part) { return !meets(part, fixed); };
    if (std::ranges::all_of(parts, is_other) && proposer.purpose != PlanPurpose::replicas) {
      throw ConfigurationError("--fix: found '" + fixed.text + "', which no proposal of " + proposer.plugin +
                               " meets; it proposes " + offers_of(parts, fixed.option));
    }
    std::erase_if(parts, is_other);
  }
  return parts;
}

std::map<Axis, PlanPurpose> PlanSpace::axes(std::span<const PlanPurpose> purposes, const PlanChoice& choice) const {
  std::map<Axis, PlanPurpose> found;
  for (const PlanPurpose purpose : purposes) {
    const int position = choice.position(purpose);
    if (position < 0) continue;
    const PlanPart part = parts(purpose, choice).at(static_cast<std::size_t>(position));
    const OptionSpecification* axis = part.schema->find(OptionRole::axis_name, OptionType::word);
    if (axis == nullptr) continue;
    const auto named = part.proposal.options.find(axis->name);
    const OptionValue value = named != part.proposal.options.end() ? named->second : axis->default_value.value();
    found[std::get<std::string>(value)] = purpose;
  }
  return found;
}

std::vector<PlanPart> PlanSpace::proposed(PlanPurpose purpose, const PlanningContext& context) const {
  std::vector<PlanPart> found;
  for (const Proposer& proposer : proposers_) {
    if (proposer.purpose != purpose) continue;
    for (PlanPart& each : ask(proposer, context)) found.push_back(std::move(each));
  }
  return found;
}

std::vector<PlanPart> PlanSpace::parts(PlanPurpose purpose, const PlanChoice& choice) const {
  const auto known = parts_.find(purpose);
  if (known != parts_.end()) return known->second;
  PlanningContext context = context_;
  if (purpose == PlanPurpose::refinement) {
    context.axes = axes(kWithAxes, choice);
    context.graph = &graph_;
    return proposed(purpose, context);
  }
  context.devices = replicas(choice);
  if (context.devices <= 1) return {};
  int neighbours = 1;  // ranks that lie between two replicas
  for (const PlanPurpose each : kDividing) {
    const PlanPart* other = part(each, choice);
    if (other == nullptr) continue;
    if (each != PlanPurpose::stages) neighbours *= other->proposal.ranks;
  }
  context.axes = axes(kDividing, choice);
  context.devices_per_node = std::max(context_.devices_per_node / neighbours, 1);
  return proposed(purpose, context);
}

bool PlanSpace::is_required(PlanPurpose purpose) const {
  return std::ranges::any_of(fixed_, [&](const Fixed& fixed) { return fixed.purpose == purpose; });
}

const PlanPart* PlanSpace::part(PlanPurpose purpose, const PlanChoice& choice) const {
  const int position = choice.position(purpose);
  return position < 0 ? nullptr : &parts_.at(purpose).at(static_cast<std::size_t>(position));
}

int PlanSpace::stages(const PlanChoice& choice) const {
  const PlanPart* stages = part(PlanPurpose::stages, choice);
  return stages == nullptr ? 1 : stages->proposal.ranks;
}

const OptionSpecification* PlanSpace::chunk_blocks_option(const PlanChoice& choice) const {
  const PlanPart* stages = part(PlanPurpose::stages, choice);
  if (stages == nullptr || stages->proposal.ranks == 1) return nullptr;
  const OptionSpecification* option = stages->schema->find(OptionRole::chunk_blocks, OptionType::word);
  return option != nullptr && !stages->proposal.options.contains(option->name) ? option : nullptr;
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
  const std::int64_t all = replicas(choice) * kept_replicas_;
  for (std::int64_t size = 1; size * all <= base_.batch.global; size *= 2) {
    const bool keeps_statistics = joint_samples_ == 0 || size * all == joint_samples_;
    if (base_.batch.global % (size * all) == 0 && keeps_statistics) sizes.push_back(size);
  }
  return sizes;
}

std::vector<PlanChoice> PlanSpace::structures() const {
  if (devices_ % kept_ranks_ != 0) return {};
  std::vector<PlanChoice> found = {PlanChoice{}};
  for (const PlanPurpose purpose : kDividing) {
    std::vector<PlanChoice> longer;
    for (const PlanChoice& choice : found) {
      if (!is_required(purpose)) longer.push_back(choice);
      std::set<std::pair<std::string, int>> seen;
      const std::vector<PlanPart> all = parts(purpose, choice);
      for (int i = 0; i < static_cast<int>(all.size()); ++i) {
        const PlanPart& part = all[static_cast<std::size_t>(i)];
        if (!seen.emplace(part.plugin, part.proposal.ranks).second) continue;
        longer.push_back(choice);
        longer.back().parts[purpose] = i;
      }
    }
    found = std::move(longer);
  }
  std::erase_if(found, [&](const PlanChoice& choice) {
    const bool needs_replicas = replicas(choice) > 1 || is_required(PlanPurpose::replicas);
    return replicas(choice) == 0 || micro_batches(choice).empty() ||
           (needs_replicas && parts(PlanPurpose::replicas, choice).empty());
  });
  for (PlanChoice& each : found) each.micro_batch = micro_batches(each).front();
  return found;
}

std::vector<PlanPurpose> PlanSpace::order(const PlanChoice& choice) {
  std::vector<PlanPurpose> purposes = {PlanPurpose::stages, PlanPurpose::replicas, PlanPurpose::sequence,
                                       PlanPurpose::tensors, PlanPurpose::memory};
  if (choice.replicas_outermost) std::swap(purposes[0], purposes[1]);
  std::erase_if(purposes, [&](PlanPurpose each) { return choice.position(each) < 0; });
  return purposes;
}

int PlanSpace::table(const PlanChoice& choice, PlanPurpose purpose) {
  const std::vector<PlanPurpose> purposes = order(choice);
  const auto found = std::ranges::find(purposes, purpose);
  return found == purposes.end() ? -1 : static_cast<int>(found - purposes.begin());
}

std::vector<PlanPart> PlanSpace::chosen(const PlanChoice& choice) const {
  std::vector<PlanPart> found;
  for (const PlanPurpose purpose : order(choice)) {
    PlanPart& part = found.emplace_back(parts(purpose, choice).at(static_cast<std::size_t>(choice.position(purpose))));
    if (purpose != PlanPurpose::stages || choice.chunk_blocks.empty()) continue;
    part.proposal.options[chunk_blocks_option(choice)->name] = split_text(choice.chunk_blocks);
  }
  if (choice.refinements.empty()) return found;
  const std::vector<PlanPart> refinements = parts(PlanPurpose::refinement, choice);
  for (const int position : choice.refinements) found.push_back(refinements.at(static_cast<std::size_t>(position)));
  return found;
}

RunConfiguration PlanSpace::configuration(const PlanChoice& choice) const { return configuration(choice, base_); }

RunConfiguration PlanSpace::configuration(const PlanChoice& choice, RunConfiguration base) const {
  const std::vector<PluginSection> kept = std::exchange(base.strategies, {});
  base.batch.micro = choice.micro_batch;
  const auto add = [&](const std::string& plugin, const std::map<std::string, OptionValue>& options) {
    base.strategies.push_back({"strategy." + std::to_string(base.strategies.size()), plugin, options});
  };
  for (const PlanPart& each : chosen(choice)) add(each.plugin, each.proposal.options);
  for (const PluginSection& each : kept) add(each.plugin, each.options);
  return base;
}

RunSetup PlanSpace::prepare_trial(const PlanChoice& choice, PluginRegistry& registry) const {
  return prepare(configuration(choice, trial_base_), registry, initial_);
}

bool PlanSpace::has_orders(const PlanChoice& choice) const {
  return context_.devices > context_.devices_per_node && choice.position(PlanPurpose::stages) >= 0 &&
         choice.position(PlanPurpose::replicas) >= 0;
}

std::string PlanSpace::text(const PlanChoice& choice) const {
  std::string text;
  for (const PlanPart& each : chosen(choice)) text += each.text() + " · ";
  return text + "micro-batch " + std::to_string(choice.micro_batch);
}

}  // namespace strata::host

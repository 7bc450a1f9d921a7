#include "strata/strategy.hpp"

#include <utility>

#include "enum_names.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"
#include "strata/peft.hpp"

namespace strata {

std::string to_string(const ScheduledTask& task) {
  return std::string(to_string(task.phase)) + " of micro-batch " + std::to_string(task.micro_batch) + ", chunk " +
         std::to_string(task.chunk);
}

Strategy::~Strategy() = default;
std::vector<MeshAxis> Strategy::axes() const { return {}; }
std::vector<Rule> Strategy::rules() const { return {}; }
void Strategy::rewrite_forward(Graph& /*graph*/, const OpRegistry& /*registry*/) const {}
void Strategy::rewrite(Graph& /*graph*/, const OpRegistry& /*registry*/) const {}
std::optional<GradientBuckets> Strategy::gradient_buckets() const { return std::nullopt; }

std::optional<ChunkedOverlap> Strategy::chunked_overlap() const { return std::nullopt; }
std::optional<ParameterStorage> Strategy::storage(const ParameterDescription& /*parameter*/) const {
  return std::nullopt;
}
std::optional<Placement> Strategy::place(const std::vector<BlockCost>& /*blocks*/) const { return std::nullopt; }
std::vector<ScheduledTask> Strategy::schedule(int /*stage*/, int /*micro_batches*/) const {
  throw VerificationError("a strategy that places blocks has no schedule");
}
double Strategy::gradient_error() const { return 0; }
Lowering Strategy::lower(NodeToLower& /*node*/) const { return {}; }
Conversion Strategy::convert(const PlannedCollective& /*collective*/) const { return {}; }

Emitter::~Emitter() = default;
ReplicaHooks::~ReplicaHooks() = default;
int ReplicaHooks::fragment(const ParameterDescription& /*parameter*/) const { return 0; }

GradientHooks::~GradientHooks() = default;
bool GradientHooks::wants_own_bucket(const ParameterDescription& /*parameter*/) const { return false; }
void GradientHooks::reduce_gradient(ReductionContext& context) const {
  const std::string name = context.label() + " gradient all_reduce " + join(context.axes(), "+");
  context.emit({.name = name,
                .work = Collective{.kind = CollectiveKind::all_reduce,
                                   .axes = context.axes(),
                                   .id = context.communication_id(name),
                                   .content = BufferKind::gradient},
                .inputs = {context.gradient()},
                .outputs = {context.gradient()}});
}
void GradientHooks::define_gradient(DefinedGradient& gradient) const {
  for (const std::vector<double>& share : gradient.shares) {
    for (std::size_t i = 0; i < share.size(); ++i) gradient.gradient[i] += share[i];
  }
}

BucketContext::~BucketContext() = default;
ReductionContext::~ReductionContext() = default;
NodeToLower::~NodeToLower() = default;
LoweringContext::~LoweringContext() = default;
ConversionContext::~ConversionContext() = default;

Instruction weighted_sum(std::string name, const std::vector<WeightedTerm>& terms, BufferId into) {
  Compute work{.op = ops::kWeightedSum};
  Instruction instruction;
  instruction.name = std::move(name);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    work.attributes.set("factor" + std::to_string(i), terms[i].factor);
    instruction.inputs.push_back(terms[i].buffer);
  }
  instruction.outputs = {into};
  instruction.work = std::move(work);
  return instruction;
}

std::string_view to_string(Sharding sharding) {
  static constexpr std::string_view kNames[] = {"nothing", "states", "gradients", "values"};
  return name_of(kNames, sharding);
}

StrategyFactory::~StrategyFactory() = default;
bool StrategyFactory::changes_model() const { return false; }
PlanPurpose StrategyFactory::plan_purpose() const { return PlanPurpose::none; }
std::vector<PlanProposal> StrategyFactory::proposals(const PlanningContext& /*context*/) const { return {}; }

TunableStrategyFactory::~TunableStrategyFactory() = default;
AdapterFactory::~AdapterFactory() = default;

}  // namespace strata

#include "strata/plugin.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "strata/communicator.hpp"
#include "strata/dataset.hpp"
#include "strata/error.hpp"
#include "strata/model.hpp"
#include "strata/optimizer.hpp"
#include "strata/registration.hpp"

namespace strata {

PluginFactory::~PluginFactory() = default;
LibraryFactory::~LibraryFactory() = default;

void PluginFactory::provide(Registration& /*registration*/, const Options& /*options*/) const {}

std::string_view to_string(PluginKind kind) {
  switch (kind) {
    case PluginKind::strategy:
      return "strategy";
    case PluginKind::model:
      return "model";
    case PluginKind::communicator:
      return "communicator";
    case PluginKind::device:
      return "device";
    case PluginKind::library:
      return "library";
    case PluginKind::optimizer:
      return "optimizer";
    case PluginKind::dataset:
      return "dataset";
  }
  return "unknown";
}

std::string_view build_flavour() { return STRATA_FLAVOUR; }

Model::~Model() = default;

DimSizes Model::sizes() const { return {}; }

std::optional<Generation> Model::generation() const { return std::nullopt; }

ModelFactory::~ModelFactory() = default;

const HuggingFaceFormat* ModelFactory::huggingface() const { return nullptr; }

Dataset::~Dataset() = default;
DatasetFactory::~DatasetFactory() = default;

void Dataset::read_common(std::span<void* const> /*destinations*/) const {
  throw VerificationError("the dataset declares an input that is the same for all samples, but does not read it");
}

std::optional<Vocabulary> Dataset::vocabulary() const { return std::nullopt; }

DimSizes DatasetFactory::sizes(const Options& /*options*/) const { return {}; }

std::string DatasetFactory::unit(const Options& /*options*/) const { return "sample"; }

WholeContext::~WholeContext() = default;
UpdateContext::~UpdateContext() = default;
Optimizer::~Optimizer() = default;
OptimizerFactory::~OptimizerFactory() = default;

std::vector<OptimizerState> Optimizer::states(const ParameterDescription& /*parameter*/) const { return {}; }

bool Optimizer::wants_own_bucket() const { return false; }

std::optional<std::string> Optimizer::refusal(const ParameterDescription& /*parameter*/) const { return std::nullopt; }

// Key functions: libstrata holds the only vtable and type information, which host and plugins share.
AbortedError::~AbortedError() = default;
Request::~Request() = default;
CapturedCommunication::~CapturedCommunication() = default;
Communicator::~Communicator() = default;
World::~World() = default;
CommunicatorFactory::~CommunicatorFactory() = default;

void Communicator::check() {}

std::optional<std::string> Communicator::uncapturable() const { return "the communicator has no graphs"; }

std::unique_ptr<CapturedCommunication> Communicator::capture(const std::function<void()>& /*communicate*/) {
  throw RuntimeError("communication cannot be captured: " + uncapturable().value_or("no reason is given"));
}

void Communicator::make_ready(const CommunicationPlan& /*plan*/) {}

int World::ranks_on_host() const { return static_cast<int>(local_ranks().size()); }

int World::index_on_host(int rank) const {
  const std::vector<int> ranks = local_ranks();
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

namespace ops {
void register_ops(Registration& registration);
}

Registration::Registration(OpRegistry& ops, KernelRegistry& kernels, std::string origin)
    : ops_(ops), kernels_(kernels), origin_(std::move(origin)) {}

void Registration::add(std::unique_ptr<OpDefinition> definition) { ops_.add(std::move(definition), origin_); }

void Registration::add(KernelDefinition kernel) { kernels_.add(std::move(kernel), origin_); }

void register_core(OpRegistry& ops, KernelRegistry& kernels) {
  Registration registration(ops, kernels, kCoreOrigin);
  ops::register_ops(registration);
}

}  // namespace strata

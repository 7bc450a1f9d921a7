#include <utility>

#include "hook_error.hpp"
#include "kernel_signature.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/kernel.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/registration.hpp"

namespace strata {
namespace {

/// Larger requests are mistakes, and sums of them could overflow.
constexpr std::int64_t kMostWorkspaceBytes = std::int64_t{1} << 48;

std::string label(const std::string& device, const OpInstance& instance) {
  return device + "'s '" + instance.op + "' (" + instance.name + "): ";
}

/// A function of a kernel, with its name.
template <class Call>
struct KernelHook {
  const char* name;
  const Call& function;
};
template <class Call>
KernelHook(const char*, const Call&) -> KernelHook<Call>;

std::string describe(const RegisteredKernel& kernel) {
  return "the kernel of " + kernel.origin + " for op '" + kernel.definition.op + "'";
}

/// A kernel of a plugin, whose failures name it.
class NamedLaunch {
 public:
  NamedLaunch(const RegisteredKernel& kernel, LaunchFunction launch)
      : kernel_(describe(kernel)), launch_(std::move(launch)) {}

  void operator()(const KernelArguments& arguments) {
    const HookScope scope(kernel_, "launch");
    try {
      launch_(arguments);
    } catch (...) {
      rethrow_from<RuntimeError>(std::string(kernel_.get()) + ": hook 'launch'");
    }
  }

 private:
  LastingText kernel_;
  LaunchFunction launch_;
};

/// The instance that moves a result from scratch memory to its output: `cast`, or `accumulate`.
OpInstance finishing_instance(const OpInstance& op, std::size_t result, const OperandDescription& natural) {
  OpInstance finish;
  finish.op = op.accumulate ? ops::kAccumulate : ops::kCast;
  finish.name = op.name;
  if (!op.accumulate) finish.attributes.set("dtype", std::string(to_string(op.results[result].dtype)));
  const auto flat = [](const OperandDescription& operand) {
    return OperandDescription{operand.dtype, {"flat"}, {kernels::elements(operand)}};
  };
  finish.operands = {flat(natural)};
  finish.results = {flat(op.results[result])};
  finish.index_maps["flat"] = IndexMap::whole(kernels::elements(natural));
  return finish;
}

/// True if `finish` is the same conversion as `op`. A kernel that needs such a finish would need itself.
bool repeats(const OpInstance& finish, const OpInstance& op) {
  return finish.op == op.op && !op.accumulate && finish.operands[0].dtype == op.operands[0].dtype;
}

/// A kernel that writes results to scratch memory, and the kernels that move them to the outputs.
class FinishedKernel {
 public:
  struct Piece {
    PreparedKernel finish;
    std::int64_t offset = 0;
    std::int64_t finish_offset = 0;
  };

  FinishedKernel(PreparedKernel inner, std::vector<Piece> pieces)
      : inner_(std::move(inner)), pieces_(std::move(pieces)), scratch_(pieces_.size()) {}

  void operator()(const KernelArguments& arguments) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      scratch_[i] = kernels::workspace_at<char>(arguments, pieces_[i].offset);
    }
    inner_.launch({arguments.operands, scratch_, arguments.workspace, arguments.context, arguments.stream});
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const void* from = scratch_[i];
      void* to = arguments.results[i];
      pieces_[i].finish.launch({{&from, 1},
                                {&to, 1},
                                kernels::workspace_at<char>(arguments, pieces_[i].finish_offset),
                                arguments.context,
                                arguments.stream});
    }
  }

 private:
  PreparedKernel inner_;
  std::vector<Piece> pieces_;
  std::vector<void*> scratch_;
};

}  // namespace

KernelSelector::KernelSelector(std::string device, const KernelRegistry& registry, const KernelEnvironment& environment,
                               KernelPolicy policy)
    : device_(std::move(device)), registry_(registry), environment_(environment), policy_(policy) {}

template <class Call>
auto KernelSelector::guarded(const RegisteredKernel& kernel, const OpInstance& instance, const Call& call) const {
  const std::string name = describe(kernel);
  const HookScope scope(LastingText(name), call.name);
  try {
    return call.function();
  } catch (...) {
    rethrow_from<ConfigurationError>(label(device_, instance) + name + ": hook '" + call.name + "'");
  }
}

std::optional<std::string> KernelSelector::mismatch(const RegisteredKernel& kernel, const OpInstance& instance) const {
  const KernelDefinition& definition = kernel.definition;
  if (auto reason = type_mismatch(definition.signature, instance)) return reason;
  const NaturalInstance natural = natural_instance(definition.signature, instance);
  if (definition.unsupported) {
    const auto ask = [&] { return definition.unsupported(natural.op, environment_); };
    const auto reason = guarded(kernel, instance, KernelHook{"unsupported", ask});
    if (reason) return reason;
  }
  if (natural.is_wanted) return std::nullopt;
  for (std::size_t i = 0; i < instance.results.size(); ++i) {
    const OpInstance finish = finishing_instance(instance, i, natural.op.results[i]);
    if (repeats(finish, instance)) {
      return "leaves result " + std::to_string(i) + " in " + std::string(to_string(natural.op.results[i].dtype)) +
             ", which it is to convert";
    }
    if (const Search found = search(finish); found.kernel == nullptr) {
      return "result " + std::to_string(i) + " cannot be brought to " +
             std::string(to_string(instance.results[i].dtype)) + ": " + found.refusal;
    }
  }
  return std::nullopt;
}

KernelSelector::Search KernelSelector::search(const OpInstance& instance) const {
  std::string refusal;
  bool is_of_same_form = false;
  for (const RegisteredKernel* each : registry_.find(instance.op, environment_.runtime())) {
    const bool is_reference = each->definition.rank == kReferenceRank;
    if (policy_ == KernelPolicy::reference_only && !is_reference) continue;
    const std::optional<std::string> reason = mismatch(*each, instance);
    if (!reason) return {each, std::move(refusal)};
    // A kernel for the same operands tells more than one for the op's other form, such as attention without documents.
    const bool has_same_form = takes_as_many(each->definition.signature, instance);
    if (!refusal.empty() && (is_of_same_form || !has_same_form)) continue;
    refusal = *reason;
    is_of_same_form = has_same_form;
  }
  if (refusal.empty()) return {nullptr, device_ + " has no kernel for op '" + instance.op + "'"};
  return {nullptr, label(device_, instance) + refusal};
}

std::optional<std::string> KernelSelector::unsupported(const OpInstance& instance) const {
  const Search found = search(instance);
  return found.kernel == nullptr ? std::optional(found.refusal) : std::nullopt;
}

std::optional<KernelChoice> KernelSelector::choice(const OpInstance& instance) const {
  Search found = search(instance);
  if (found.kernel == nullptr) return std::nullopt;
  const bool is_reference = found.kernel->definition.rank == kReferenceRank;
  if (!is_reference || policy_ == KernelPolicy::reference_only) return KernelChoice{found.kernel->origin};
  return KernelChoice{found.kernel->origin, true, std::move(found.refusal)};
}

PreparedKernel KernelSelector::prepare(const OpInstance& instance) const {
  const Search found = search(instance);
  if (found.kernel == nullptr) throw ConfigurationError(found.refusal);
  return prepare(*found.kernel, instance);
}

PreparedKernel KernelSelector::prepare(const RegisteredKernel& kernel, const OpInstance& instance) const {
  const NaturalInstance natural = natural_instance(kernel.definition.signature, instance);
  const auto prepare_natural = [&] { return kernel.definition.prepare(natural.op, environment_); };
  PreparedKernel inner = guarded(kernel, instance, KernelHook{"prepare", prepare_natural});
  const std::string by = label(device_, instance) + "the kernel of " + kernel.origin;
  if (!inner.launch) throw ConfigurationError(by + " prepares no launch");
  if (inner.workspace_bytes < 0 || inner.workspace_bytes > kMostWorkspaceBytes) {
    throw ConfigurationError(by + " asks for " + std::to_string(inner.workspace_bytes) +
                             " bytes of scratch memory; accepted: 0 to " + std::to_string(kMostWorkspaceBytes));
  }
  if (kernel.origin != kCoreOrigin) inner.launch = NamedLaunch(kernel, std::move(inner.launch));
  if (natural.is_wanted) return inner;
  kernels::WorkspacePlan workspace;
  workspace.reserve(inner.workspace_bytes);
  std::vector<FinishedKernel::Piece> pieces;
  for (std::size_t i = 0; i < instance.results.size(); ++i) {
    const OperandDescription& result = natural.op.results[i];
    FinishedKernel::Piece piece{prepare(finishing_instance(instance, i, result)),
                                workspace.reserve(kernels::bytes(result)), 0};
    piece.finish_offset = workspace.reserve(piece.finish.workspace_bytes);
    pieces.push_back(std::move(piece));
  }
  return {FinishedKernel(std::move(inner), std::move(pieces)), workspace.bytes()};
}

}  // namespace strata

#include "strata/kernel.hpp"

#include <algorithm>
#include <utility>

#include "kernel_signature.hpp"
#include "strata/error.hpp"

namespace strata {

Kernel::~Kernel() = default;

KernelEnvironment::KernelEnvironment(std::string runtime, int threads)
    : runtime_(std::move(runtime)), threads_(threads) {}
KernelEnvironment::~KernelEnvironment() = default;

KernelRegistry::KernelRegistry() = default;
KernelRegistry::~KernelRegistry() = default;
KernelRegistry::KernelRegistry(KernelRegistry&&) noexcept = default;
KernelRegistry& KernelRegistry::operator=(KernelRegistry&&) noexcept = default;

void KernelRegistry::add(KernelDefinition definition, const std::string& origin) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigurationError(origin + " registers a kernel for op '" + definition.op + "': " + why);
  };
  if (definition.op.empty()) refuse("it names no op");
  if (definition.runtime.empty()) refuse("it names no runtime");
  if (!definition.prepare) refuse("it has no function 'prepare'");
  if (const auto fault = signature_fault(definition.signature)) refuse(*fault);
  auto& kernels = kernels_[definition.op];
  const auto behind = std::find_if(kernels.begin(), kernels.end(),
                                   [&](const auto& each) { return each->definition.rank < definition.rank; });
  kernels.insert(behind, std::make_unique<RegisteredKernel>(RegisteredKernel{std::move(definition), origin}));
}

std::vector<const RegisteredKernel*> KernelRegistry::find(const std::string& op, const std::string& runtime) const {
  std::vector<const RegisteredKernel*> found;
  for (const auto& each : all(op)) {
    if (each->definition.runtime == runtime) found.push_back(each.get());
  }
  return found;
}

const std::vector<std::unique_ptr<RegisteredKernel>>& KernelRegistry::all(const std::string& op) const {
  static const std::vector<std::unique_ptr<RegisteredKernel>> kNone;
  const auto found = kernels_.find(op);
  return found == kernels_.end() ? kNone : found->second;
}

std::vector<std::string> KernelRegistry::ops() const {
  std::vector<std::string> names;
  for (const auto& [op, kernels] : kernels_) names.push_back(op);
  return names;
}

}  // namespace strata

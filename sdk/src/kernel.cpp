#include "strata/kernel.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "kernel_signature.hpp"
#include "strata/error.hpp"
#include "strata/gpu_kernel.hpp"

namespace strata {

Kernel::~Kernel() = default;

struct KernelEnvironment::Shared {
  std::mutex mutex;
  std::map<std::type_index, std::weak_ptr<void>> objects;
};

KernelEnvironment::KernelEnvironment(std::string runtime, int threads)
    : runtime_(std::move(runtime)), threads_(threads), shared_(std::make_unique<Shared>()) {}
KernelEnvironment::~KernelEnvironment() = default;

std::shared_ptr<void> KernelEnvironment::find_shared(std::type_index type,
                                                     const std::function<std::shared_ptr<void>()>& make) const {
  const std::lock_guard lock(shared_->mutex);
  std::weak_ptr<void>& known = shared_->objects[type];
  std::shared_ptr<void> object = known.lock();
  if (object == nullptr) known = object = make();
  return object;
}

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

GpuEnvironment::GpuEnvironment(const GpuDescription& gpu, const std::string& runtime)
    : KernelEnvironment(runtime, 0), gpu_(gpu) {}
GpuEnvironment::~GpuEnvironment() = default;

}  // namespace strata

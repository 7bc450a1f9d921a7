#pragma once

#include <memory>
#include <string>

#include "strata/export.hpp"
#include "strata/kernel.hpp"
#include "strata/op.hpp"

namespace strata {

/// Origin of Strata's own ops and of their reference kernels.
inline constexpr const char* kCoreOrigin = "libstrata";

/// Collects the ops and kernels that one plugin adds to a run (PluginFactory::provide).
class STRATA_API Registration {
 public:
  /// `origin`: the plugin's name in messages and reports. The registries outlive the registration.
  Registration(OpRegistry& ops, KernelRegistry& kernels, std::string origin);

  /// Adds an op. If the same name and version are registered already, the registered definition stays, so two plugins
  /// may each register the same op. \throws ConfigurationError if another version is registered.
  void add(std::unique_ptr<OpDefinition> definition);
  /// Adds a kernel. \throws ConfigurationError if the definition is incomplete.
  void add(KernelDefinition kernel);

 private:
  OpRegistry& ops_;
  KernelRegistry& kernels_;
  std::string origin_;
};

/// Registers Strata's own ops with their reference kernels.
STRATA_API void register_core(OpRegistry& ops, KernelRegistry& kernels);

}  // namespace strata

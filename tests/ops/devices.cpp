#include "ops/devices.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>

#include "build_directory.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

std::string plugin_path(const std::string& name) {
  return build_directory(STRATA_BUILD_DIRECTORY) + "/lib/strata/plugins/device_" + name + ".so";
}

void provide(const DeviceFactory& factory, const std::string& name, KernelRegistry& kernels) {
  OpRegistry ops;
  Registration registration(ops, kernels, "device " + name);
  factory.provide(registration, Options(factory.options(), {}));
}

}  // namespace

const DeviceFactory& device_factory(const std::string& name) {
  void* library = dlopen(plugin_path(name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw RuntimeError(dlerror());
  using Entry = PluginFactory* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kPluginEntry));
  if (entry == nullptr) throw RuntimeError(dlerror());
  return dynamic_cast<DeviceFactory&>(*entry());
}

KernelRegistry own_kernels(const std::string& name) {
  KernelRegistry kernels;
  provide(device_factory(name), name, kernels);
  return kernels;
}

const KernelRegistry& kernels_of_run(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, KernelRegistry> runs;
  const std::lock_guard lock(mutex);
  const auto [run, is_new] = runs.try_emplace(name);
  if (is_new) {
    OpRegistry ops;
    register_core(ops, run->second);
    provide(device_factory(name), name, run->second);
  }
  return run->second;
}

std::unique_ptr<Device> make_device(const std::string& name, const std::map<std::string, OptionValue>& given,
                                    DeviceRequest request) {
  const DeviceFactory& factory = device_factory(name);
  if (request.kernels == nullptr) request.kernels = &kernels_of_run(name);
  return factory.create(Options(factory.options(), given), request);
}

std::map<std::string, std::shared_ptr<Device>> cpu_devices(std::int64_t threads) {
  std::map<std::string, std::shared_ptr<Device>> devices;
  for (const std::string instructions : {"portable", "avx2", "avx512", "amx"}) {
    try {
      devices[instructions] = make_device("cpu", {{"instructions", instructions}, {"threads", threads}});
    } catch (const ConfigurationError&) {
      // This processor lacks the instructions.
    }
  }
  return devices;
}

std::vector<std::string> accelerators() {
  std::vector<std::string> names;
  for (const std::string name : {"cuda_emulated", "cuda"}) {
    if (!std::filesystem::exists(plugin_path(name))) continue;
    try {
      make_device(name);
      names.push_back(name);
    } catch (const ConfigurationError&) {
      // No GPU here.
    }
  }
  return names;
}

}  // namespace strata::testing

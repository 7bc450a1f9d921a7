#include "ops/devices.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>

#include "build_paths.hpp"
#include "loading/resolved_plugins.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

std::filesystem::path device_path(const std::string& name) { return plugin_folder() + "/device_" + name + ".so"; }

PluginFactory& load(const std::filesystem::path& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw RuntimeError(dlerror());
  using Entry = PluginFactory* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kPluginEntry));
  if (entry == nullptr) throw RuntimeError(dlerror());
  return *entry();
}

void provide(const PluginFactory& factory, const std::string& origin, OpRegistry& ops, KernelRegistry& kernels) {
  Registration registration(ops, kernels, origin);
  factory.provide(registration, host::default_options(factory.options()));
}

}  // namespace

const DeviceFactory& device_factory(const std::string& name) {
  return dynamic_cast<DeviceFactory&>(load(device_path(name)));
}

void register_vocabulary(OpRegistry& ops, KernelRegistry& kernels) {
  register_core(ops, kernels);
  for (const auto& file : std::filesystem::directory_iterator(plugin_folder())) {
    const std::string name = file.path().stem().string();
    if (name.starts_with("optimizer_") || name.starts_with("strategy_")) provide(load(file.path()), name, ops, kernels);
  }
}

KernelRegistry own_kernels(const std::string& name) {
  OpRegistry ops;
  KernelRegistry kernels;
  provide(device_factory(name), "device " + name, ops, kernels);
  return kernels;
}

const KernelRegistry& kernels_of_run(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, KernelRegistry> runs;
  const std::lock_guard lock(mutex);
  const auto [run, is_new] = runs.try_emplace(name);
  if (is_new) {
    OpRegistry ops;
    register_vocabulary(ops, run->second);
    provide(device_factory(name), "device " + name, ops, run->second);
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
    if (!std::filesystem::exists(device_path(name))) continue;
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

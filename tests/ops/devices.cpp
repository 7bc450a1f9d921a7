#include "ops/devices.hpp"

#include <dlfcn.h>

#include "strata/error.hpp"

namespace strata::testing {

const DeviceFactory& device_factory(const std::string& name) {
  const std::string path = std::string(STRATA_BUILD_DIRECTORY) + "/lib/strata/plugins/device_" + name + ".so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw RuntimeError(dlerror());
  using Entry = PluginFactory* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kPluginEntry));
  if (entry == nullptr) throw RuntimeError(dlerror());
  return dynamic_cast<DeviceFactory&>(*entry());
}

std::unique_ptr<Device> make_device(const std::string& name, const std::map<std::string, OptionValue>& given) {
  const DeviceFactory& factory = device_factory(name);
  return factory.create(Options(factory.options(), given), DeviceRequest{});
}

}  // namespace strata::testing

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "loading/plugin_call.hpp"
#include "loading/resolved_plugins.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

/// A device that a plugin finds on this machine, or why it finds none.
struct FoundDevice {
  std::string plugin;
  std::string description;
  std::int64_t memory_bytes = 0;
  /// Why the plugin has no device.
  std::string error;
};

/// Limit that ends the search if a plugin numbers its devices without end.
constexpr int kMostDevices = 1024;

/// Asks the plugin for the device of the machine's first rank, its second and so on, until a device repeats.
void find_devices(const std::string& plugin, const DeviceFactory& factory, const KernelRegistry& kernels,
                  std::vector<FoundDevice>& found) {
  const PluginOrigin origin = origin_of(PluginKind::device, plugin);
  std::set<int> numbers;
  for (int rank = 0; rank < kMostDevices; ++rank) {
    const DeviceRequest request{.kernels = &kernels, .rank = rank, .ranks_on_host = 1, .index_on_host = rank};
    const std::unique_ptr<Device> device = guarded_device(
        create_by_plugin(origin, "create", [&] { return factory.create(default_options(factory.options()), request); }),
        origin);
    const NativeStream stream = device->native_stream(StreamKind::compute);
    if (!numbers.insert(stream.device).second) return;
    found.push_back({plugin, device->description(), device->memory_bytes(), ""});
    // A device without a runtime has no number, because it is the machine itself. So there is only one.
    if (stream.runtime.empty()) return;
  }
}

std::vector<FoundDevice> find_devices(PluginRegistry& registry) {
  const InstalledVocabulary vocabulary = installed_vocabulary(registry);
  std::vector<FoundDevice> found;
  for (const PluginDescription& plugin : registry.acceptable(PluginKind::device)) {
    try {
      find_devices(plugin.name, registry.load<DeviceFactory>(plugin.name), vocabulary.kernels, found);
    } catch (const Error& error) {
      found.push_back({plugin.name, "", 0, error.what()});
    }
  }
  return found;
}

void print_json(const std::vector<FoundDevice>& devices, std::ostream& out) {
  ordered_json list = ordered_json::array();
  for (const FoundDevice& device : devices) {
    ordered_json entry{{"plugin", device.plugin}};
    if (device.error.empty()) {
      entry["description"] = device.description;
      entry["memory_bytes"] = device.memory_bytes;
    } else {
      entry["error"] = device.error;
    }
    list.push_back(entry);
  }
  write_json(out, {{"devices", list}});
}

struct DevicesArguments {
  bool json = false;
};

int list_devices(const DevicesArguments& arguments, CommandContext& context) {
  const std::vector<FoundDevice> devices = find_devices(context.plugins());
  if (arguments.json) {
    print_json(devices, context.out);
    return 0;
  }
  for (const FoundDevice& device : devices) {
    context.out << device.plugin << ": ";
    if (device.error.empty()) {
      context.out << device.description << ", " << short_bytes(device.memory_bytes) << '\n';
    } else {
      context.out << "none: " << device.error << '\n';
    }
  }
  return 0;
}

}  // namespace

void add_devices_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<DevicesArguments>(
      app, context, "devices", "List the devices that the device plugins find on this machine", list_devices);
  command->add_flag("--json", arguments->json, "Print JSON");
}

}  // namespace strata::host

#include "cli/devices_command.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "train/data/text_format.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

/// A device that a plugin finds on this machine, or why it has none.
struct FoundDevice {
  std::string plugin;
  std::string description;
  std::int64_t memory_bytes = 0;
  /// Of a plugin without a device.
  std::string error;
};

/// What a machine's first rank would get, its second, and so on until the devices come round again.
void find_devices(const std::string& plugin, const DeviceFactory& factory, std::vector<FoundDevice>& found) {
  std::set<int> numbers;
  for (int rank = 0;; ++rank) {
    const std::unique_ptr<Device> device = factory.create(Options(factory.options(), {}), {rank, 1, rank});
    const NativeStream stream = device->native_stream(StreamKind::compute);
    if (!numbers.insert(stream.device).second) return;
    found.push_back({plugin, device->description(), device->memory_bytes(), ""});
    // A device of no runtime has no number: it is the machine itself.
    if (stream.runtime.empty()) return;
  }
}

std::vector<FoundDevice> find_devices(PluginRegistry& registry) {
  std::vector<FoundDevice> found;
  for (const PluginFile& file : registry.files()) {
    if (!file.refusal.empty() || file.description->kind != PluginKind::device) continue;
    const std::string& plugin = file.description->name;
    try {
      find_devices(plugin, registry.load<DeviceFactory>(plugin), found);
    } catch (const Error& error) {
      found.push_back({plugin, "", 0, error.what()});
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
  out << ordered_json{{"devices", list}}.dump(2, ' ', false, ordered_json::error_handler_t::replace) << '\n';
}

int list_devices(bool json, CommandContext& context) {
  const std::vector<FoundDevice> devices = find_devices(context.plugins());
  if (json) {
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
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "What the device plugins find on this machine, or why nothing");
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json, &context] { context.action = [json, &context] { return list_devices(*json, context); }; });
}

}  // namespace strata::host

#include <fmt/format.h>

#include <set>

#include "cluster/cluster_fields.hpp"
#include "cluster/cluster_file.hpp"
#include "files/text_format.hpp"
#include "strata/options.hpp"

namespace strata::host {
namespace {

std::string word_text(const std::string& word) { return to_string(OptionValue(word)); }

std::string number_text(double value) { return exact_number(value); }
std::string number_text(int value) { return std::to_string(value); }
std::string number_text(std::int64_t value) { return std::to_string(value); }
std::string number_text(const std::optional<double>& value) { return exact_number(value.value()); }

/// Entries "key = value" of the numbers that are required or differ from their default values.
template <class Table>
std::vector<std::string> number_entries(const Table& table) {
  static const Table defaults;
  std::vector<std::string> entries;
  for (const NumberField<Table>& field : number_fields<Table>()) {
    std::visit(
        [&](auto member) {
          if (!field.is_required && table.*member == defaults.*member) return;
          entries.push_back(fmt::format("{} = {}", field.name, number_text(table.*member)));
        },
        field.member);
  }
  return entries;
}

std::string lines(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) text += entry + "\n";
  return text;
}

std::string inline_table(const std::vector<std::string>& entries) {
  return fmt::format("{{ {} }}", fmt::join(entries, ", "));
}

std::string inline_table(const MeasuredPoint& point) {
  std::vector<std::string> entries = {"work = " + word_text(point.work),
                                      fmt::format("dtype = \"{}\"", to_string(point.dtype)),
                                      fmt::format("shape = [{}]", fmt::join(point.shape, ", "))};
  const std::vector<std::string> numbers = number_entries(point);
  entries.insert(entries.end(), numbers.begin(), numbers.end());
  return inline_table(entries);
}

/// "key = [" and one line for each table. Empty if there are none.
template <class Table, class Text>
std::string list(const char* key, const std::vector<Table>& tables, const Text& text) {
  if (tables.empty()) return "";
  std::string result = std::string(key) + " = [\n";
  for (const Table& table : tables) result += "  " + text(table) + ",\n";
  return result + "]\n";
}

std::string device_text(const DeviceDescription& device) {
  std::vector<std::string> peaks;
  for (const auto& [type, rate] : device.peak_flops) {
    peaks.push_back(fmt::format("{} = {}", to_string(type), exact_number(rate)));
  }
  return fmt::format("\n[cluster.device.{}]\n", word_text(device.name)) + "peak_flops = " + inline_table(peaks) + "\n" +
         lines(number_entries(device)) + (device.fused_attention ? "" : "fused_attention = false\n") +
         list("tiles", device.tiles, [](const ProductTile& tile) { return inline_table(number_entries(tile)); }) +
         list("points", device.points, [](const MeasuredPoint& point) { return inline_table(point); });
}

std::string group_text(const NodeGroup& group) {
  return "\n[[cluster.group]]\nname = " + word_text(group.name) + "\ndevice = " + word_text(group.device.name) + "\n" +
         lines(number_entries(group));
}

/// The last level between nodes joins all devices however many there are, so the file does not say how many.
std::string level_text(LinkLevel level, bool is_last_of_several) {
  if (is_last_of_several) level.devices = LinkLevel().devices;
  std::vector<std::string> entries = number_entries(level);
  if (!is_last_of_several && level.devices == LinkLevel().devices) entries.insert(entries.begin(), "devices = 1");
  return "\n[[cluster.level]]\nname = " + word_text(level.name) + "\n" + lines(entries);
}

std::string protocol_text(const CollectiveProtocol& protocol) {
  std::vector<std::string> hops;
  for (const double hop : protocol.hops) hops.push_back(exact_number(hop));
  return "\n[[cluster.protocol]]\nname = " + word_text(protocol.name) + "\n" + lines(number_entries(protocol)) +
         fmt::format("hops = [{}]\n", fmt::join(hops, ", "));
}

}  // namespace

std::string to_toml(const Cluster& cluster, const std::vector<std::string>& remarks) {
  std::string text;
  for (const std::string& remark : remarks) text += "# " + remark + "\n";
  text += "[cluster]\nname = " + word_text(cluster.name) + "\ncurrency = " + word_text(cluster.currency) + "\n" +
          lines(number_entries(cluster));
  std::set<std::string> written;
  for (const NodeGroup& group : cluster.groups) {
    if (written.insert(group.device.name).second) text += device_text(group.device);
  }
  for (const NodeGroup& group : cluster.groups) text += group_text(group);
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    text += level_text(cluster.levels[i], i > 0 && i + 1 == cluster.levels.size());
  }
  for (const CollectiveProtocol& protocol : cluster.protocols) text += protocol_text(protocol);
  return text;
}

}  // namespace strata::host

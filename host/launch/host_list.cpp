#include "launch/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "files/host_name.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr const char* kAcceptedHosts = "HOST:SLOTS, as in node1:4, with at least one slot";
constexpr int kMostSlots = 1 << 16;

std::string without_space(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// A name that ssh does not take for an option, and that is one word.
bool is_host_name(const std::string& name) {
  return !name.empty() && name[0] != '-' && std::all_of(name.begin(), name.end(), [](char letter) {
    return letter > ' ' && letter < '\x7f' && letter != ',' && letter != '\'' && letter != '"';
  });
}

class HostReader {
 public:
  /// `place`: of the text, for messages.
  void add(const std::string& text, const std::string& place) {
    // "node1 slots=4" and "node1 4" are ways of other launchers' files.
    const std::size_t end = text.find_last_of(": \t");
    std::string count = end == std::string::npos ? "" : text.substr(end + 1);
    if (count.starts_with("slots=")) count.erase(0, 6);
    HostSlots host;
    if (end != std::string::npos) host.name = without_space(text.substr(0, end));
    // Addresses of IPv6 contain colons: [fe80::1]:4.
    if (host.name.starts_with('[') && host.name.ends_with(']')) host.name = host.name.substr(1, host.name.size() - 2);
    const auto [rest, error] = std::from_chars(count.data(), count.data() + count.size(), host.slots);
    const bool is_number = error == std::errc() && rest == count.data() + count.size() && !count.empty();
    if (!is_number || host.slots < 1 || host.slots > kMostSlots || !is_host_name(host.name)) {
      throw ConfigurationError(place + ": found '" + text + "'; accepted: " + kAcceptedHosts);
    }
    const bool is_known =
        std::any_of(hosts_.begin(), hosts_.end(), [&](const HostSlots& each) { return each.name == host.name; });
    if (is_known) throw ConfigurationError(place + ": found the host '" + host.name + "' twice; accepted: once");
    hosts_.push_back(std::move(host));
  }

  void add_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw ConfigurationError("--hosts: '" + path + "' cannot be read");
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      const std::string text = without_space(line.substr(0, line.find('#')));
      if (!text.empty()) add(text, fmt::format("--hosts: {}:{}", path, number));
    }
    if (hosts_.empty()) throw ConfigurationError("--hosts: '" + path + "' names no host; accepted: " + kAcceptedHosts);
  }

  [[nodiscard]] std::vector<HostSlots> take() { return std::move(hosts_); }

 private:
  std::vector<HostSlots> hosts_;
};

}  // namespace

std::string HostSlots::address() const { return name.substr(name.find('@') + 1); }

std::vector<HostSlots> read_hosts(const std::string& argument) {
  HostReader reader;
  std::error_code ignored;
  if (argument.find('/') != std::string::npos || std::filesystem::is_regular_file(argument, ignored)) {
    reader.add_file(argument);
    return reader.take();
  }
  std::istringstream list(argument + ",");
  for (std::string each; std::getline(list, each, ',');) reader.add(without_space(each), "--hosts");
  return reader.take();
}

std::vector<HostSlots> for_processes(std::vector<HostSlots> hosts, int ranks_per_process) {
  for (HostSlots& host : hosts) {
    if (host.slots < ranks_per_process) {
      throw ConfigurationError(
          fmt::format("--hosts: '{}': found {} slot(s); accepted: at least {}, the ranks of a process", host.name,
                      host.slots, ranks_per_process));
    }
    host.slots -= host.slots % ranks_per_process;
  }
  return hosts;
}

bool is_this_machine(const std::string& name) {
  const std::string own = own_host_name();
  const std::array<std::string, 5> names{"localhost", "127.0.0.1", "::1", own, own.substr(0, own.find('.'))};
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<int> place_ranks(const std::vector<HostSlots>& hosts, int ranks) {
  std::vector<int> counts;
  for (const HostSlots& host : hosts) {
    counts.push_back(std::min(host.slots, ranks));
    ranks -= counts.back();
  }
  return counts;
}

int total_slots(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  return slots;
}

}  // namespace strata::host

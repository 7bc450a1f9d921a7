#include "launch/rank_placement.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string_view>

#include "files/host_name.hpp"
#include "files/text_format.hpp"
#include "launch/child_process.hpp"
#include "setup/launched_process.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr const char* kAcceptedHosts = "HOST:SLOTS, as in node1:4, with at least one slot";
constexpr int kMostSlots = 1 << 16;

/// A name that ssh does not take for an option, and that is one word.
bool is_host_name(const std::string& name) {
  return !name.empty() && name[0] != '-' && std::ranges::all_of(name, [](char letter) {
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
    if (end != std::string::npos) host.name = trimmed(text.substr(0, end));
    // Addresses of IPv6 contain colons: [fe80::1]:4.
    if (host.name.starts_with('[') && host.name.ends_with(']')) host.name = host.name.substr(1, host.name.size() - 2);
    host.slots = parse_number<int>(count).value_or(0);
    if (host.slots < 1 || host.slots > kMostSlots || !is_host_name(host.name)) {
      throw ConfigurationError(place + ": found '" + text + "'; accepted: " + kAcceptedHosts);
    }
    const bool is_known = std::ranges::any_of(hosts_, [&](const HostSlots& each) { return each.name == host.name; });
    if (is_known) throw ConfigurationError(place + ": found the host '" + host.name + "' twice; accepted: once");
    hosts_.push_back(std::move(host));
  }

  void add_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw ConfigurationError("--hosts: '" + path + "' cannot be read");
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      const std::string text = trimmed(line.substr(0, line.find('#')));
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
  for (std::string each; std::getline(list, each, ',');) reader.add(trimmed(each), "--hosts");
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
  return contains(names, name);
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

std::string random_secret() {
  forbid_core_dumps();
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw RuntimeError(std::string("no random numbers for the ranks' secret: ") + std::strerror(errno));
  }
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned byte : bytes) text += {kDigits[byte >> 4U], kDigits[byte & 15U]};
  return text;
}

std::vector<std::vector<ProcessRequest>> rank_requests(const std::vector<std::string>& words,
                                                       const Placement& placement, const Meeting& meeting) {
  const std::vector<int>& counts = placement.counts;
  const int per_process = placement.ranks_per_process;
  const std::string processes = std::to_string(std::accumulate(counts.begin(), counts.end(), 0) / per_process);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::vector<ProcessRequest>> hosts;
  int process = 0;
  for (const int count : counts) {
    std::vector<ProcessRequest>& requests = hosts.emplace_back();
    for (int local = 0; local < count / per_process; ++local, ++process) {
      ProcessRequest request;
      request.rank = process * per_process;
      request.ranks = per_process;
      request.words = {program, "train"};
      request.words.insert(request.words.end(), words.begin(), words.end());
      if (process > 0) request.words.insert(request.words.end(), {"--log-level", "warning"});
      request.environment = {{"RANK", std::to_string(process)},
                             {"WORLD_SIZE", processes},
                             {"LOCAL_RANK", std::to_string(local)},
                             {"LOCAL_WORLD_SIZE", std::to_string(count / per_process)},
                             {"MASTER_ADDR", meeting.address},
                             {"MASTER_PORT", meeting.port},
                             {"STRATA_PORT", meeting.port},
                             {"STRATA_SECRET", meeting.secret},
                             {kLaunchedRanks, processes}};
      requests.push_back(std::move(request));
    }
  }
  return hosts;
}

void add_own_variables(std::vector<ProcessRequest>& requests) {
  constexpr std::array<std::string_view, 6> kBegins = {
      "STRATA_", "NCCL_", "GLOO_", "OMP_", "SLURM_JOB_START_TIME=", "SLURM_JOB_END_TIME="};
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::size_t equals = entry.find('=');
    const bool is_needed =
        std::ranges::any_of(kBegins, [&](const std::string_view begin) { return entry.starts_with(begin); });
    if (!is_needed || equals == std::string_view::npos) continue;
    for (ProcessRequest& request : requests) {
      // Does not replace the variables of the ranks.
      request.environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
}

std::string meeting_address(const std::vector<HostSlots>& hosts, const std::vector<int>& counts,
                            const std::string& first, const std::string& given) {
  const auto with_ranks = std::ranges::count_if(counts, [](int count) { return count > 0; });
  if (with_ranks == 1) return "127.0.0.1";
  const HostSlots& host = hosts.front();
  if (!given.empty() && host.name == first) return given;
  // Other hosts would connect to themselves.
  return is_this_machine(host.name) ? own_host_name() : host.address();
}

}  // namespace strata::host

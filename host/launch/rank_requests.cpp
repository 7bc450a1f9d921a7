#include "launch/rank_requests.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string_view>

#include "files/host_name.hpp"
#include "launch/child_process.hpp"
#include "setup/launched_process.hpp"
#include "strata/error.hpp"

namespace strata::host {

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
    const bool is_needed = std::any_of(kBegins.begin(), kBegins.end(),
                                       [&](const std::string_view begin) { return entry.starts_with(begin); });
    if (!is_needed || equals == std::string_view::npos) continue;
    for (ProcessRequest& request : requests) {
      // Does not replace the variables of the ranks.
      request.environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
}

std::string meeting_address(const std::vector<HostSlots>& hosts, const std::vector<int>& counts,
                            const std::string& first, const std::string& given) {
  const auto with_ranks = std::count_if(counts.begin(), counts.end(), [](int count) { return count > 0; });
  if (with_ranks == 1) return "127.0.0.1";
  const HostSlots& host = hosts.front();
  if (!given.empty() && host.name == first) return given;
  // Other hosts would connect to themselves.
  return is_this_machine(host.name) ? own_host_name() : host.address();
}

}  // namespace strata::host

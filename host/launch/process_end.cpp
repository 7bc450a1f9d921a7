#include "launch/process_end.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>

namespace strata::host {

std::int64_t out_of_memory_kills(const std::filesystem::path& statistics) {
  std::ifstream file(statistics);
  std::string name;
  std::int64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

std::string describe_ranks(int first, int count) {
  if (count == 1) return "rank " + std::to_string(first);
  return "ranks " + std::to_string(first) + (count == 2 ? " and " : " to ") + std::to_string(first + count - 1);
}

std::string describe(const ProcessEnd& end) {
  const std::string rank = (end.ranks == 1 ? "" : "the process of ") + describe_ranks(end.rank, end.ranks) +
                           (end.host.empty() ? "" : " on " + end.host);
  if (end.by_force) return rank + " did not end in time and was ended by force";
  if (end.signal == 0) return rank + " ended with exit code " + std::to_string(end.exit_code);
  return rank + " was ended by signal " + std::to_string(end.signal) + " (" + ::strsignal(end.signal) + ")" +
         (end.out_of_memory ? ", when the kernel ended a process because memory ran out" : "");
}

void sort_by_cause(std::vector<ProcessEnd>& ends) {
  const auto place = [](const ProcessEnd& end) { return end.by_force ? 2 : end.signal != 0 ? 0 : 1; };
  std::stable_sort(ends.begin(), ends.end(),
                   [&](const ProcessEnd& a, const ProcessEnd& b) { return place(a) < place(b); });
}

}  // namespace strata::host

#include "launch/process_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>

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
  if (count == 1) return fmt::format("rank {}", first);
  return fmt::format("ranks {} {} {}", first, count == 2 ? "and" : "to", first + count - 1);
}

std::string describe(const ProcessEnd& end) {
  const std::string rank = (end.ranks == 1 ? "" : "the process of ") + describe_ranks(end.rank, end.ranks) +
                           (end.host.empty() ? "" : " on " + end.host);
  if (end.by_force) return rank + " did not end in time and was ended by force";
  if (end.signal == 0) return fmt::format("{} ended with exit code {}", rank, end.exit_code);
  return fmt::format("{} was ended by signal {} ({}){}", rank, end.signal, ::strsignal(end.signal),
                     end.out_of_memory ? ", when the kernel ended a process because memory ran out" : "");
}

void sort_by_cause(std::vector<ProcessEnd>& ends) {
  const auto place = [](const ProcessEnd& end) { return end.by_force ? 2 : end.signal != 0 ? 0 : 1; };
  std::stable_sort(ends.begin(), ends.end(),
                   [&](const ProcessEnd& a, const ProcessEnd& b) { return place(a) < place(b); });
}

void EndDeadline::note_request() {
  asked_to_stop_ = true;
  if (grace_.after_signal) end_within(*grace_.after_signal);
  if (requests_.note() >= SignalCount::kLimit) end_within(Grace::Seconds(0));
}

void EndDeadline::end_within(Grace::Seconds grace) {
  deadline_ = std::min(deadline_, Clock::now() + std::chrono::duration_cast<Clock::duration>(grace));
}

bool EndDeadline::strikes() {
  if (has_struck_ || Clock::now() < deadline_) return false;
  has_struck_ = true;
  return true;
}

int EndDeadline::milliseconds_left() const {
  if (has_struck_ || deadline_ == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace strata::host

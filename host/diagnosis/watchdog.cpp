#include "diagnosis/watchdog.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

namespace strata::host {
namespace {

std::string whole_seconds(double seconds) { return std::to_string(std::lround(std::floor(seconds))) + " s"; }

std::string rank_subject(const std::vector<int>& ranks, const char* one, const char* many) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + describe_ranks(ranks) + (ranks.size() == 1 ? one : many);
}

/// Ranks that do the same.
struct Standstill {
  bool waits = false;
  std::string what;
  std::vector<int> ranks;
  double seconds = 0;
};

void add_standstill(std::vector<Standstill>& all, const FlightRecord& record, double seconds) {
  const bool waits = record.obstacle() != nullptr;
  const std::string what = describe(record);
  auto found = std::find_if(all.begin(), all.end(), [&](const Standstill& each) { return each.what == what; });
  if (found == all.end()) found = all.insert(all.end(), {waits, what, {}, seconds});
  found->ranks.push_back(record.rank);
  found->seconds = std::min(found->seconds, seconds);
}

/// Those that do not wait for others first.
std::vector<std::string> messages_of(std::vector<Standstill> all) {
  std::stable_sort(all.begin(), all.end(), [](const Standstill& a, const Standstill& b) { return a.waits < b.waits; });
  std::vector<std::string> messages;
  for (const Standstill& each : all) {
    messages.push_back(rank_subject(each.ranks, " has been ", " have been ") + each.what + " for " +
                       whole_seconds(each.seconds));
  }
  return messages;
}

}  // namespace

Watchdog::Watchdog(const FlightRecorders& recorders, double interval) : recorders_(recorders), interval_(interval) {}

Watchdog::Findings Watchdog::look(double now) {
  Findings findings;
  std::vector<Standstill> still;
  std::map<std::string, std::vector<int>> going_on;
  for (const auto& [rank, recorder] : recorders_.all()) {
    recorder->observe(now);
    const FlightRecorder::Movement movement = recorder->movement();
    Seen& seen = seen_.try_emplace(rank, Seen{movement.moves, now, interval_}).first->second;
    const double seconds = now - seen.since;
    if (movement.moves != seen.moves || movement.is_over) {
      if (seen.patience > interval_ && movement.moves != seen.moves) going_on[whole_seconds(seconds)].push_back(rank);
      seen = {movement.moves, now, interval_};
    } else if (interval_ > 0 && seconds >= seen.patience) {
      add_standstill(still, recorder->read(), seconds);
      seen.patience *= 2;
      findings.hangs = true;
    }
  }
  findings.messages = messages_of(std::move(still));
  for (const auto& [seconds, ranks] : going_on) {
    findings.messages.push_back(rank_subject(ranks, " goes on", " go on") + " after " + seconds);
  }
  return findings;
}

std::vector<std::string> Watchdog::describe_all(double now) const {
  std::vector<Standstill> all;
  for (const auto& [rank, recorder] : recorders_.all()) {
    const auto seen = seen_.find(rank);
    if (seen == seen_.end() || recorder->movement().is_over) continue;
    add_standstill(all, recorder->read(), now - seen->second.since);
  }
  return messages_of(std::move(all));
}

bool StopGrace::look(double now, bool is_asked) {
  std::uint64_t moves = 0;
  bool runs = false;
  bool saves = false;
  bool computes = false;
  for (const auto& [rank, recorder] : recorders_.all()) {
    const FlightRecorder::Movement movement = recorder->movement();
    moves += movement.moves;
    runs = runs || !movement.is_over;
    saves = saves || movement.activity == Activity::saving;
    computes = computes || movement.activity == Activity::training || movement.activity == Activity::evaluating;
  }
  if (!moved_at_ || moves != moves_) {
    if (moved_at_ && computes_) longest_ = std::max(longest_, now - *moved_at_);
    moves_ = moves;
    moved_at_ = now;
  }
  computes_ = computes;
  if (!is_asked) asked_at_.reset();
  if (is_asked && !asked_at_) asked_at_ = now;
  if (seconds_ == 0 || !asked_at_ || !runs || saves) return false;
  return now - std::max(*moved_at_, *asked_at_) >= patience();
}

bool StopGrace::may_go_on(const FlightRecord& record) const {
  if (!record.error.empty() || record.activity == Activity::ended) return false;
  return record.activity == Activity::saving || record.seconds < patience();
}

double StopGrace::patience() const { return std::max(seconds_, 2 * longest_); }

}  // namespace strata::host

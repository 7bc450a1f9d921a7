#include "diagnosis/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "diagnosis/mismatches.hpp"
#include "files/text_format.hpp"

namespace strata::host {
namespace {

class Judge {
 public:
  explicit Judge(std::vector<FlightRecord> records) {
    for (FlightRecord& record : records) {
      verdict_.rank_count = std::max(verdict_.rank_count, record.rank_count);
      const int rank = record.rank;
      verdict_.records.insert_or_assign(rank, std::move(record));
    }
  }

  RankVerdict judge() {
    for (int rank = 0; rank < verdict_.rank_count; ++rank) {
      if (!verdict_.records.contains(rank)) verdict_.missing.push_back(rank);
    }
    for (const auto& [rank, record] : verdict_.records) {
      if (!record.error.empty() && !record.is_echo) verdict_.failures.emplace_back(rank, record.error);
      find_wait(record);
    }
    verdict_.mismatches = find_mismatches(verdict_.records);
    for (const RankWait& wait : verdict_.waits) {
      for (const int other : wait.on) waits_for_[wait.rank].insert(other);
    }
    find_culprits();
    if (verdict_.culprits.empty()) find_circle();
    return std::move(verdict_);
  }

 private:
  void find_wait(const FlightRecord& record) {
    const RecordedCommunication* obstacle = record.obstacle();
    if (obstacle == nullptr) return;
    RankWait wait{.rank = record.rank, .communication = *obstacle, .on = {}};
    for (const int other : obstacle->ranks) {
      if (other != record.rank && !has_taken_part(record, *obstacle, other)) wait.on.push_back(other);
    }
    verdict_.waits.push_back(std::move(wait));
  }

  /// True if `other` has issued its part of a communication of `record`'s rank.
  [[nodiscard]] bool has_taken_part(const FlightRecord& record, const RecordedCommunication& communication,
                                    int other) const {
    const auto found = verdict_.records.find(other);
    if (found == verdict_.records.end()) return false;
    const FlightRecord& theirs = found->second;
    if (communication.is_message()) return has_counterpart(theirs, communication, record.rank);
    return std::any_of(theirs.communications.begin(), theirs.communications.end(),
                       [&](const RecordedCommunication& each) {
                         return !each.is_message() && each.ranks == communication.ranks &&
                                each.group == communication.group && each.ordinal >= communication.ordinal;
                       }) ||
           has_forgotten(theirs, communication.run);
  }

  /// True if `record` has the other half of a message with `rank`.
  [[nodiscard]] static bool has_counterpart(const FlightRecord& record, const RecordedCommunication& message,
                                            int rank) {
    const char* kind = message.kind == "send" ? "receive" : "send";
    return std::any_of(record.communications.begin(), record.communications.end(),
                       [&](const RecordedCommunication& each) {
                         return each.kind == kind && each.ranks == std::vector<int>{rank} && each.id == message.id &&
                                each.run == message.run;
                       }) ||
           has_forgotten(record, message.run);
  }

  /// True if the record's oldest communication is of a later run, so that its part of an earlier one is not known.
  [[nodiscard]] static bool has_forgotten(const FlightRecord& record, std::uint64_t run) {
    return !record.communications.empty() && record.communications.front().run > run;
  }

  /// Ranks that wait for `rank`, directly or through others.
  [[nodiscard]] std::vector<int> blocked_by(int rank) const {
    std::set<int> blocked{rank};
    for (bool grows = true; grows;) {
      grows = false;
      for (const auto& [waiting, others] : waits_for_) {
        const bool waits =
            std::any_of(others.begin(), others.end(), [&](int other) { return blocked.contains(other); });
        grows = (waits && blocked.insert(waiting).second) || grows;
      }
    }
    blocked.erase(rank);
    return {blocked.begin(), blocked.end()};
  }

  /// A culprit is waited for, and waits for nobody.
  void find_culprits() {
    std::set<int> waited_for;
    for (const auto& [rank, others] : waits_for_) waited_for.insert(others.begin(), others.end());
    for (const int rank : waited_for) {
      if (const auto own = waits_for_.find(rank); own != waits_for_.end() && !own->second.empty()) continue;
      verdict_.culprits.push_back({rank, deed_of(rank), blocked_by(rank)});
    }
    std::stable_sort(verdict_.culprits.begin(), verdict_.culprits.end(),
                     [](const Culprit& a, const Culprit& b) { return a.blocks.size() > b.blocks.size(); });
  }

  [[nodiscard]] std::string deed_of(int rank) const {
    const auto found = verdict_.records.find(rank);
    if (found == verdict_.records.end()) {
      return "has left no record: its process was killed or is stopped, its host is gone, or it has written to another "
             "folder";
    }
    const FlightRecord& record = found->second;
    if (record.activity == Activity::ended) return "has ended";
    if (!record.error.empty()) return "failed while " + describe(record);
    return "has been " + describe(record) + format_line(" for %.0f s", std::floor(record.seconds));
  }

  /// Follows the waits of some rank until a rank comes a second time.
  void find_circle() {
    for (const auto& start : waits_for_) {
      std::vector<int> path;
      int rank = start.first;
      while (std::find(path.begin(), path.end(), rank) == path.end()) {
        path.push_back(rank);
        const auto next = waits_for_.find(rank);
        if (next == waits_for_.end() || next->second.empty()) break;
        rank = *next->second.begin();
      }
      const auto again = std::find(path.begin(), path.end(), rank);
      if (again == path.end() || !waits_for_.contains(path.back()) || !waits_for_.at(path.back()).contains(rank)) {
        continue;
      }
      verdict_.circle.assign(again, path.end());
      return;
    }
  }

  RankVerdict verdict_;
  /// By the rank that waits.
  std::map<int, std::set<int>> waits_for_;
};

}  // namespace

RankVerdict judge(std::vector<FlightRecord> records) { return Judge(std::move(records)).judge(); }

}  // namespace strata::host

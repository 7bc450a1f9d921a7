#include "diagnosis/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "files/text_format.hpp"
#include "strata/tensor.hpp"

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
    return std::ranges::any_of(theirs.communications,
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
    return std::ranges::any_of(record.communications,
                               [&](const RecordedCommunication& each) {
                                 return each.kind == kind && each.ranks == std::vector<int>{rank} &&
                                        each.id == message.id && each.run == message.run;
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
        const bool waits = std::ranges::any_of(others, [&](int other) { return blocked.contains(other); });
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
    std::ranges::stable_sort(verdict_.culprits,
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
      while (!contains(path, rank)) {
        path.push_back(rank);
        const auto next = waits_for_.find(rank);
        if (next == waits_for_.end() || next->second.empty()) break;
        rank = *next->second.begin();
      }
      const auto again = std::ranges::find(path, rank);
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

using GroupKey = std::pair<std::vector<int>, int>;
using Issued = std::vector<std::pair<int, const RecordedCommunication*>>;

bool is_collective(const RecordedCommunication& communication) {
  return !communication.is_message() && communication.ordinal > 0;
}

bool is_alike(const RecordedCommunication& a, const RecordedCommunication& b) {
  return a.kind == b.kind && a.id == b.id && a.bytes == b.bytes;
}

/// "rank 0 all_reduce 'x' (id 3) of 64 bytes".
std::string part_of(int rank, const RecordedCommunication& communication) {
  return "rank " + std::to_string(rank) + " issued " + communication.kind + " '" + communication.name + "' (id " +
         std::to_string(communication.id) + ", " + std::to_string(communication.bytes) + " bytes)";
}

using nlohmann::ordered_json;

/// Without control characters, which could write to the terminal.
std::string printable_text(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter < ' ' || letter == 0x7f; }, '?');
  return text;
}

std::string count_of_ranks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + describe_ranks(ranks);
}

std::string heading(const RankVerdict& verdict) {
  std::string text = std::to_string(verdict.records.size()) + " of " + std::to_string(verdict.rank_count) +
                     " ranks have left a record";
  if (!verdict.missing.empty()) text += "; none of " + count_of_ranks(verdict.missing);
  const auto time = [](const auto& a, const auto& b) { return a.second.time < b.second.time; };
  const auto [first, last] = std::ranges::minmax_element(verdict.records, time);
  if (const double apart = last->second.time - first->second.time; apart > 10) {
    text += format_line("\nthe records were written up to %.0f s apart; that of rank %d is the oldest", apart,
                        first->second.rank);
  }
  return text + "\n";
}

/// Communications that did not end although all members have issued them.
std::string describe_stalled(const RankVerdict& verdict) {
  std::string text;
  for (const RankWait& wait : verdict.waits) {
    if (!wait.on.empty()) continue;
    text += describe(wait.communication) + " did not end on rank " + std::to_string(wait.rank) +
            ", although all have taken part: the communicator or the network is slow or at fault\n";
  }
  return text;
}

std::string conclusion(const RankVerdict& verdict) {
  std::string text;
  for (const std::string& mismatch : verdict.mismatches) text += mismatch + "\n";
  for (const Culprit& culprit : verdict.culprits) {
    text += "rank " + std::to_string(culprit.rank) + " " + culprit.does + "\n";
    text += "  " + count_of_ranks(culprit.blocks) + (culprit.blocks.size() == 1 ? " waits" : " wait") + " for it\n";
  }
  if (!verdict.circle.empty()) {
    text += "a circle:";
    for (const int rank : verdict.circle) text += " rank " + std::to_string(rank) + " waits for";
    text += " rank " + std::to_string(verdict.circle.front()) + "\n";
  }
  if (text.empty()) text = describe_stalled(verdict);
  for (const auto& [rank, error] : verdict.failures)
    text += "rank " + std::to_string(rank) + " failed: " + error + "\n";
  return text.empty() ? "no rank did what the others did not\n" : text;
}

/// What each rank does, one line per rank.
std::string details(const RankVerdict& verdict) {
  std::string text;
  for (const auto& each : verdict.records) {
    const int rank = each.first;
    const FlightRecord& record = each.second;
    text += "  rank " + std::to_string(rank) + " (" + record.host + ", process " + std::to_string(record.process) +
            "): " + describe(record) + format_line(", for %.0f s", std::floor(record.seconds));
    const auto found = std::ranges::find(verdict.waits, rank, &RankWait::rank);
    if (found != verdict.waits.end()) {
      const char* part = found->communication.kind == "receive" ? " not sent by "
                         : found->communication.kind == "send"  ? " not received by "
                                                                : " not issued by ";
      text += found->on.empty() ? "; all have taken part" : ";" + (part + count_of_ranks(found->on));
    }
    text += "\n";
  }
  return text;
}

ordered_json wait_json(const RankWait& wait) {
  return {{"rank", wait.rank},
          {"kind", wait.communication.kind},
          {"name", wait.communication.name},
          {"id", wait.communication.id},
          {"ranks", wait.communication.ranks},
          {"ordinal", wait.communication.ordinal},
          {"step", wait.communication.step},
          {"on", wait.on}};
}

}  // namespace

RankVerdict judge(std::vector<FlightRecord> records) { return Judge(std::move(records)).judge(); }

std::vector<std::string> find_mismatches(const std::map<int, FlightRecord>& records) {
  std::map<GroupKey, std::map<std::uint64_t, Issued>> groups;
  for (const auto& [rank, record] : records) {
    for (const RecordedCommunication& each : record.communications) {
      if (is_collective(each)) groups[{each.ranks, each.group}][each.ordinal].emplace_back(rank, &each);
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [key, ordinals] : groups) {
    for (const auto& [ordinal, issued] : ordinals) {
      const auto& [first, expected] = issued.front();
      std::string sentence;
      for (const auto& [rank, found] : issued) {
        if (!is_alike(*expected, *found)) sentence += ", " + part_of(rank, *found);
      }
      if (sentence.empty()) continue;
      sentences.push_back("collective " + std::to_string(ordinal) + " of the group of ranks " +
                          describe_ranks(key.first) + " differs: " + part_of(first, *expected) + sentence);
      break;
    }
  }
  return sentences;
}

std::string verdict_text(const RankVerdict& verdict) {
  std::string text;
  std::string line;
  for (const char letter : heading(verdict) + conclusion(verdict) + "what each rank did:\n" + details(verdict)) {
    if (letter != '\n') {
      line += letter;
      continue;
    }
    text += printable_text(std::exchange(line, "")) + "\n";
  }
  return text;
}

ordered_json verdict_json(const RankVerdict& verdict) {
  ordered_json ranks = ordered_json::array();
  for (const auto& [rank, record] : verdict.records) {
    ranks.push_back({{"rank", rank},
                     {"host", record.host},
                     {"process", record.process},
                     {"time", record.time},
                     {"step", record.step},
                     {"does", describe(record)},
                     {"seconds", record.seconds},
                     {"error", record.error}});
  }
  ordered_json waits = ordered_json::array();
  for (const RankWait& wait : verdict.waits) waits.push_back(wait_json(wait));
  ordered_json culprits = ordered_json::array();
  for (const Culprit& each : verdict.culprits) {
    culprits.push_back({{"rank", each.rank}, {"does", each.does}, {"blocks", each.blocks}});
  }
  ordered_json failures = ordered_json::array();
  for (const auto& [rank, error] : verdict.failures) failures.push_back({{"rank", rank}, {"error", error}});
  return {{"ranks", verdict.rank_count},
          {"missing", verdict.missing},
          {"culprits", culprits},
          {"circle", verdict.circle},
          {"mismatches", verdict.mismatches},
          {"failures", failures},
          {"waits", waits},
          {"records", ranks}};
}

}  // namespace strata::host

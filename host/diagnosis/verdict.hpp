#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/flight_record.hpp"

namespace strata::host {

/// One communication that keeps a rank from going on, and the ranks that keep it.
struct RankWait {
  int rank = 0;
  RecordedCommunication communication;
  /// Ranks that have not issued their part, or have left no record.
  std::vector<int> on;
};

/// A rank that did what the others did not.
struct Culprit {
  int rank = 0;
  /// A sentence without the rank: "has been computing …".
  std::string does;
  /// Ranks that wait for it, directly or through others.
  std::vector<int> blocks;
};

/// What the records of a run's ranks say together.
struct RankVerdict {
  int rank_count = 0;
  /// By rank.
  std::map<int, FlightRecord> records;
  /// Ranks without a record.
  std::vector<int> missing;
  /// Failures that are not the echo of another one: rank and error.
  std::vector<std::pair<int, std::string>> failures;
  /// Communications of one place in the order of a group that differ between ranks. One sentence each.
  std::vector<std::string> mismatches;
  std::vector<RankWait> waits;
  /// The ranks for which the others wait, those that block most first.
  std::vector<Culprit> culprits;
  /// Ranks that wait for each other in a circle, each for the next. Empty if there is none.
  std::vector<int> circle;
};

/// Compares the records of one run, at least one.
[[nodiscard]] RankVerdict judge(std::vector<FlightRecord> records);

/// The first communication of each group that its members did not issue alike: another kind, id or size. One sentence
/// each.
[[nodiscard]] std::vector<std::string> find_mismatches(const std::map<int, FlightRecord>& records);

/// The verdict for people, several lines. Text of the records is made printable.
[[nodiscard]] std::string verdict_text(const RankVerdict& verdict);
/// The verdict as JSON.
[[nodiscard]] nlohmann::ordered_json verdict_json(const RankVerdict& verdict);

}  // namespace strata::host

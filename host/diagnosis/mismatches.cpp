#include "diagnosis/mismatches.hpp"

#include <utility>

namespace strata::host {
namespace {

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

}  // namespace

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

}  // namespace strata::host

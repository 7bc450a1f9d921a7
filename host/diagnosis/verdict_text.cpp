#include "diagnosis/verdict_text.hpp"

#include <algorithm>
#include <cmath>

#include "files/text_format.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

/// Without control characters, which could write to the terminal.
std::string printable_text(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char letter) { return letter < ' ' || letter == 0x7f; }, '?');
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
  const auto [first, last] = std::minmax_element(verdict.records.begin(), verdict.records.end(), time);
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

/// What each rank does, one line a rank.
std::string details(const RankVerdict& verdict) {
  std::string text;
  for (const auto& each : verdict.records) {
    const int rank = each.first;
    const FlightRecord& record = each.second;
    text += "  rank " + std::to_string(rank) + " (" + record.host + ", process " + std::to_string(record.process) +
            "): " + describe(record) + format_line(", for %.0f s", std::floor(record.seconds));
    const auto found = std::find_if(verdict.waits.begin(), verdict.waits.end(),
                                    [&](const RankWait& wait) { return wait.rank == rank; });
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

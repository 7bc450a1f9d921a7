#include "cli/offload_report.hpp"

#include <iomanip>
#include <nlohmann/json.hpp>

#include "files/text_format.hpp"
#include "reports/program_summary.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

OffloadBytes of_fullest_rank(const TrainingPrograms& programs) {
  OffloadBytes fullest;
  for (const OffloadBytes& each : programs.planned_offload()) fullest = largest(fullest, each);
  return fullest;
}

std::string direction(const TransferSummary& summary) {
  return std::string(to_string(summary.from)) + " to " + std::string(to_string(summary.to));
}

}  // namespace

std::string describe_offload(const TrainingPrograms& programs) {
  const OffloadBytes bytes = of_fullest_rank(programs);
  std::string text;
  if (bytes.host > 0) text += ", " + short_bytes(bytes.host) + " of host memory";
  if (bytes.file > 0) text += ", " + short_bytes(bytes.file) + " in a file";
  return text;
}

void print_offload(std::ostream& out, const TrainingPrograms& programs) {
  const std::string bytes = describe_offload(programs);
  if (bytes.empty()) return;
  out << "\noffloaded by the rank with most: " << bytes.substr(2) << "\n";
  out << "transfers of a step   calls          bytes\n";
  for (const TransferSummary& each : summarize_transfers(programs.training.programs.front())) {
    out << std::left << std::setw(20) << direction(each) << std::right << std::setw(7) << each.calls << std::setw(15)
        << short_bytes(each.bytes) << '\n';
  }
}

ordered_json offload_json(const TrainingPrograms& programs) {
  ordered_json ranks = ordered_json::array();
  for (const OffloadBytes& each : programs.planned_offload()) {
    ranks.push_back({{"host_bytes", each.host}, {"file_bytes", each.file}});
  }
  ordered_json transfers = ordered_json::array();
  for (std::size_t i = 0; i < programs.training.programs.size(); ++i) {
    for (const TransferSummary& each : summarize_transfers(programs.training.programs[i])) {
      transfers.push_back({{"class", i},
                           {"from", to_string(each.from)},
                           {"to", to_string(each.to)},
                           {"calls", each.calls},
                           {"bytes", each.bytes}});
    }
  }
  return {{"ranks", ranks}, {"transfers", transfers}};
}

}  // namespace strata::host

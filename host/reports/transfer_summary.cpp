#include "reports/transfer_summary.hpp"

#include <map>
#include <utility>

#include "compiler/program/buffer_ranges.hpp"

namespace strata::host {

std::vector<TransferSummary> summarize_transfers(const Program& program) {
  std::map<std::pair<MemoryPlace, MemoryPlace>, TransferSummary> by_places;
  for_each_instruction(program, [&](const TaskInstance&, std::size_t, const Instruction& instruction) {
    if (!instruction.is<Transfer>()) return;
    const Buffer& from = program.buffer(instruction.inputs.at(0));
    const Buffer& to = program.buffer(instruction.outputs.at(0));
    TransferSummary& summary = by_places[{from.place, to.place}];
    summary.from = from.place;
    summary.to = to.place;
    ++summary.calls;
    summary.bytes += from.bytes();
  });
  std::vector<TransferSummary> all;
  for (const auto& [places, summary] : by_places) all.push_back(summary);
  return all;
}

}  // namespace strata::host

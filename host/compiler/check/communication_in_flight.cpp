#include "compiler/check/communication_in_flight.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {

void CommunicationInFlight::start(const Instruction& instruction, int micro_batch, const BufferRanges& ranges,
                                  std::function<std::string()> description) {
  const std::uint64_t number = next_++;
  const bool is_collective = instruction.is<Collective>();
  std::vector<Use> uses;
  for (const BufferId id : instruction.inputs) uses.push_back({ranges.range(id, micro_batch), false});
  for (const BufferId id : instruction.outputs) uses.push_back({ranges.range(id, micro_batch), true});
  for (const Use& use : uses) {
    std::vector<std::uint64_t>& numbers = by_instance_[use.range.instance];
    if (numbers.empty() || numbers.back() != number) numbers.push_back(number);
  }
  if (is_collective) collectives_.push_back(number);
  entries_.emplace(number, Entry{std::move(description), is_collective, std::move(uses)});
}

void CommunicationInFlight::wait(const ByteRange& range) {
  const auto found = by_instance_.find(range.instance);
  if (found == by_instance_.end()) return;
  std::optional<std::uint64_t> last_collective;
  const std::vector<std::uint64_t> numbers = found->second;
  for (const std::uint64_t number : numbers) {
    const Entry& entry = entries_.at(number);
    const bool uses_range = std::ranges::any_of(entry.uses, [&](const Use& use) { return use.range.overlaps(range); });
    if (!uses_range) continue;
    if (entry.is_collective) {
      last_collective = number;
    } else {
      end(number);
    }
  }
  while (last_collective && !collectives_.empty() && collectives_.front() <= *last_collective) {
    end(collectives_.front());
    collectives_.pop_front();
  }
}

std::optional<std::string> CommunicationInFlight::conflict(const ByteRange& range, bool write,
                                                           bool by_collective) const {
  const auto found = by_instance_.find(range.instance);
  if (found == by_instance_.end()) return std::nullopt;
  for (const std::uint64_t number : found->second) {
    const Entry& entry = entries_.at(number);
    if (by_collective && entry.is_collective) continue;
    for (const Use& use : entry.uses) {
      if ((write || use.written) && use.range.overlaps(range)) return entry.description();
    }
  }
  return std::nullopt;
}

void CommunicationInFlight::end(std::uint64_t number) {
  const auto entry = entries_.find(number);
  for (const Use& use : entry->second.uses) {
    const auto numbers = by_instance_.find(use.range.instance);
    if (numbers == by_instance_.end()) continue;
    std::erase(numbers->second, number);
    if (numbers->second.empty()) by_instance_.erase(numbers);
  }
  entries_.erase(entry);
}

}  // namespace strata::host

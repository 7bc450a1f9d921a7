#include "runtime/flight_record.hpp"

#include <algorithm>
#include <array>

#include "strata/tensor.hpp"

namespace strata::host {
namespace {

constexpr std::array<std::string_view, 8> kActivityNames = {"connecting", "preparing",  "restoring", "reading",
                                                            "training",   "evaluating", "saving",    "ended"};
constexpr std::array<std::string_view, 4> kStateNames = {"issued", "enqueued", "complete", "failed"};

template <class Value, std::size_t N>
std::optional<Value> value_named(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Value>(found - names.begin());
}

/// What an instruction does: "computing linear", "loading".
std::string participle_of(const RecordedInstruction& instruction) {
  if (instruction.kind == "compute") return "computing " + instruction.work;
  if (instruction.kind == "load") return "loading";
  if (instruction.kind == "copy") return "copying";
  if (instruction.kind == "transfer") return "transferring";
  return "starting " + instruction.work;
}

/// "step 37, backward, micro-batch 2".
std::string place_in_step(const FlightRecord& record) {
  std::string place = record.activity == Activity::evaluating ? "evaluation after step " : "step ";
  place += std::to_string(record.step);
  if (record.ends_step) return place + ", its end";
  if (!record.instruction) return place;
  place += ", " + record.instruction->phase;
  if (record.instruction->micro_batch >= 0) place += ", micro-batch " + std::to_string(record.instruction->micro_batch);
  return place;
}

std::string describe_activity(const FlightRecord& record) {
  const std::string step = std::to_string(record.step);
  switch (record.activity) {
    case Activity::connecting:
      return "connecting to the other ranks";
    case Activity::preparing:
      return "preparing kernels and groups";
    case Activity::restoring:
      return "initialising or restoring its parameters";
    case Activity::reading:
      return "waiting for the data of step " + std::to_string(record.step + 1);
    case Activity::saving:
      return "writing the checkpoint of step " + step;
    case Activity::ended:
      return "done";
    case Activity::training:
      return "beginning or ending step " + step;
    case Activity::evaluating:
      return "between the batches of the evaluation after step " + step;
  }
  return "";
}

/// What a rank does while it waits for a communication.
std::string place_of(const FlightRecord& record) {
  switch (record.activity) {
    case Activity::training:
    case Activity::evaluating:
      return place_in_step(record);
    case Activity::reading:
      return "before step " + std::to_string(record.step + 1);
    default:
      return describe_activity(record);
  }
}

}  // namespace

std::string_view name_of(Activity activity) { return kActivityNames.at(static_cast<std::size_t>(activity)); }
std::string_view name_of(CommunicationState state) { return kStateNames.at(static_cast<std::size_t>(state)); }

std::optional<Activity> activity_named(std::string_view name) { return value_named<Activity>(kActivityNames, name); }
std::optional<CommunicationState> communication_state_named(std::string_view name) {
  return value_named<CommunicationState>(kStateNames, name);
}

const RecordedCommunication* FlightRecord::find(std::uint64_t number) const {
  const auto found = std::ranges::find(communications, number, &RecordedCommunication::number);
  return found == communications.end() ? nullptr : &*found;
}

const RecordedCommunication* FlightRecord::obstacle() const {
  if (awaited) return find(*awaited);
  if (instruction) return nullptr;
  // On a device with streams, ranks wait for the device.
  const auto found = std::ranges::find(communications, CommunicationState::enqueued, &RecordedCommunication::state);
  return found == communications.end() ? nullptr : &*found;
}

std::string describe_ranks(const std::vector<int>& ranks) {
  if (!std::ranges::is_sorted(ranks)) {
    std::vector<std::string> all;
    for (const int rank : ranks) all.push_back(std::to_string(rank));
    return join(all, ", ");
  }
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += (last > i + 1 ? "-" : ", ") + std::to_string(ranks[last]);
    i = last;
  }
  return text;
}

std::string describe(const RecordedCommunication& communication) {
  if (communication.kind == "make_ready") return "the connections of the program";
  if (communication.kind == "create_group") return "the creation of a group";
  std::string text = communication.kind;
  if (!communication.name.empty()) text += " '" + communication.name + "'";
  if (communication.id != 0) text += " (id " + std::to_string(communication.id) + ")";
  const std::string ranks = describe_ranks(communication.ranks);
  if (communication.kind == "send") return text + " to rank " + ranks;
  if (communication.kind == "receive") return text + " from rank " + ranks;
  return text + (communication.ranks.size() == 1 ? " of rank " : " of ranks ") + ranks;
}

std::string describe(const FlightRecord& record) {
  const bool is_in_step = record.activity == Activity::training || record.activity == Activity::evaluating;
  const std::string place = " (" + place_of(record) + ")";
  if (const RecordedCommunication* obstacle = record.obstacle()) {
    return "waiting for " + describe(*obstacle) + place;
  }
  if (!is_in_step) return describe_activity(record);
  if (record.ends_step) return "waiting for its device" + place;
  if (!record.instruction) return describe_activity(record);
  const std::string more =
      record.instruction->count > 1 ? " and " + std::to_string(record.instruction->count - 1) + " more as a graph" : "";
  return participle_of(*record.instruction) + " '" + record.instruction->name + "'" + more + place;
}

}  // namespace strata::host

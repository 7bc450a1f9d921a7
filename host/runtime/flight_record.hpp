#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// What a rank does, coarsely. Instructions are executed while it trains or evaluates.
enum class Activity : std::uint8_t { connecting, preparing, restoring, reading, training, evaluating, saving, ended };

[[nodiscard]] std::string_view name_of(Activity activity);
/// Empty if no activity has that name.
[[nodiscard]] std::optional<Activity> activity_named(std::string_view name);

/// How far a communication has come.
enum class CommunicationState : std::uint8_t {
  issued,    ///< started by this rank
  enqueued,  ///< the device's compute stream waits for it
  complete,
  failed
};

[[nodiscard]] std::string_view name_of(CommunicationState state);
[[nodiscard]] std::optional<CommunicationState> communication_state_named(std::string_view name);

/// A communication that a rank has issued.
struct RecordedCommunication {
  /// Counts the rank's communications, from 1.
  std::uint64_t number = 0;
  /// The kind of a collective ("all_reduce"), "send", "receive", "create_group" or "make_ready".
  std::string kind;
  std::string name;
  /// The members of the group in their order, or the peer of a message.
  std::vector<int> ranks = {};
  /// Index among the groups of these ranks, since several may have the same members.
  int group = 0;
  /// Counts the collectives of the group, or the messages of this kind with the peer, from 1.
  std::uint64_t ordinal = 0;
  /// Equal collectives that followed each other while the rank did nothing else, as in a wait for a checkpoint.
  /// `ordinal` and `id` are those of the last one.
  std::uint64_t repeats = 1;
  /// Runs of programs on this rank so far: steps and batches of evaluations. It is the same on all ranks.
  std::uint64_t run = 0;
  /// Steps completed before it, plus one while a step runs.
  std::uint64_t step = 0;
  /// -1 outside of micro-batches.
  int micro_batch = -1;
  /// Of this rank's input, or of the message.
  std::int64_t bytes = 0;
  std::uint64_t id = 0;
  CommunicationState state = CommunicationState::issued;
  /// Seconds since 1970.
  double issued_at = 0;
  /// When its wait ended; 0 before.
  double completed_at = 0;

  [[nodiscard]] bool is_message() const { return kind == "send" || kind == "receive"; }
};

/// The instruction that a rank executes.
struct RecordedInstruction {
  std::string task;
  /// "forward", "backward", …
  std::string phase;
  int micro_batch = -1;
  /// Position in the task.
  std::size_t index = 0;
  /// kind_name() and work_name(): "compute" and "linear", "collective" and "all_reduce".
  std::string kind;
  std::string work;
  std::string name;
  /// Instructions that are launched with it as one graph of the device, and itself.
  std::size_t count = 1;
};

/// What a rank did at one moment, and its last communications.
struct FlightRecord {
  int rank = 0;
  int rank_count = 1;
  std::string host = {};
  int process = 0;
  /// When the record was taken, in seconds since 1970.
  double time = 0;
  Activity activity = Activity::connecting;
  /// The step that runs. Between steps, the last complete one.
  std::uint64_t step = 0;
  std::uint64_t run = 0;
  std::optional<RecordedInstruction> instruction = {};
  /// True between the last instruction of a step and its end.
  bool ends_step = false;
  /// RecordedCommunication::number of the communication that the rank waits for.
  std::optional<std::uint64_t> awaited = {};
  /// How long the rank has been doing that.
  double seconds = 0;
  /// Why the rank failed. Empty if it has not.
  std::string error = {};
  /// True if it failed because another rank did.
  bool is_echo = false;
  /// The last ones, the oldest first.
  std::vector<RecordedCommunication> communications = {};

  [[nodiscard]] const RecordedCommunication* find(std::uint64_t number) const;
  /// The communication that keeps the rank from going on: the one it waits for, or the oldest that its device waits
  /// for. Null if there is none.
  [[nodiscard]] const RecordedCommunication* obstacle() const;
};

/// "all_reduce 'bucket 3' (id 17) of ranks 0-3", "receive 'h.1' (id 4) from rank 2".
[[nodiscard]] std::string describe(const RecordedCommunication& communication);
/// What the rank does, as a participle: "computing linear 'h.1.mlp' (step 37, backward, micro-batch 2)".
[[nodiscard]] std::string describe(const FlightRecord& record);
/// "0-3, 7" of ascending ranks. Other orders are listed one by one.
[[nodiscard]] std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace strata::host

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/flight_record.hpp"
#include "strata/communicator.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Keeps what a rank does now, and its last 256 communications, so that another thread can read them when the rank
/// hangs. The rank's thread writes, and any thread reads. Notes allocate nothing, except for new groups.
class FlightRecorder {
 public:
  static constexpr std::size_t kCommunications = 256;

  /// A communication that is about to start.
  struct Issue {
    std::string_view kind;
    /// Null: none.
    const std::string* name = nullptr;
    /// The number of the group, or -1 for a message.
    int group = -1;
    int peer = -1;
    std::int64_t bytes = 0;
    std::uint64_t id = 0;
  };

  /// Whether a rank gets on.
  struct Movement {
    /// Grows with everything that the rank does.
    std::uint64_t moves = 0;
    /// True if the rank has ended or failed.
    bool is_over = false;
    Activity activity = Activity::connecting;
  };

  FlightRecorder(int rank, int rank_count);

  /// The rank begins another activity. `step`: FlightRecord::step.
  void begin(Activity activity, std::uint64_t step = 0);
  /// A program begins to run.
  void begin_run();
  /// The rank begins an instruction, or a graph of `count` ones. The program outlives the recorder.
  void begin(const Program& program, const TaskInstance& at, std::size_t index, std::size_t count = 1);
  /// The last instruction of the run has been launched, so the rank waits for the end of the others.
  void begin_end();
  void end_run();

  /// Communicator::create_group() has returned `number` for `ranks`.
  void add_group(int number, const std::vector<int>& ranks);
  /// \return the number of the communication.
  std::uint64_t issue(const Issue& issue);
  void begin_wait(std::uint64_t communication);
  /// `state`: what the communication is after its wait.
  void end_wait(std::uint64_t communication, CommunicationState state);
  /// The device has executed all that was enqueued.
  void complete_enqueued();

  /// The rank failed. From then on the record stays as it is. `is_echo`: because another rank failed.
  void fail(const std::string& error, bool is_echo);
  /// fail() with the exception that is being handled.
  void fail_with_current_exception();

  [[nodiscard]] Movement movement() const;
  /// Tells the recorder the time, in seconds of any clock. A thread that calls it regularly dates what the rank does.
  void observe(double now);
  [[nodiscard]] FlightRecord read() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kNameBytes = 95;

  struct Entry {
    /// All but the ranks, their group and the times. The name has room for kNameBytes from the start.
    RecordedCommunication noted;
    int group = -1;
    int peer = -1;
    Clock::time_point issued;
    Clock::time_point ended;
  };
  struct Group {
    std::vector<int> ranks;
    int index = 0;
    std::uint64_t collectives = 0;
  };
  struct Place {
    const Program* program = nullptr;
    TaskInstance at;
    std::size_t index = 0;
    std::size_t count = 0;
  };

  /// Counts a move if the note is one. \return false if nothing is noted any more.
  bool accept(bool is_move = true);
  /// Null if the communication is not among the last ones any more.
  Entry* find(std::uint64_t communication);
  /// The counter of the messages of one kind with a peer.
  std::uint64_t& messages(const Issue& issue);
  [[nodiscard]] bool repeats(const Entry& last, const Issue& issue) const;
  [[nodiscard]] RecordedInstruction read_instruction() const;
  [[nodiscard]] RecordedCommunication read(const Entry& entry, double now) const;

  mutable std::mutex mutex_;
  /// What read() gives, but for the time, the place in the program and the communications.
  FlightRecord record_;
  Place place_;
  /// True if the rank has done something else than communicating since its last communication.
  bool has_moved_on_ = true;
  std::uint64_t moves_ = 0;
  bool failed_ = false;
  /// Entry of communication n at n % kCommunications.
  std::array<Entry, kCommunications> entries_;
  std::uint64_t issued_ = 0;
  /// By number.
  std::vector<Group> groups_;
  /// Messages sent to and received from each rank.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> messages_;
  /// When the rank was seen to move, and the time of the last observation.
  std::uint64_t observed_moves_ = 0;
  double moved_at_ = 0;
  double observed_at_ = 0;
};

/// The recorders of a process's ranks.
class FlightRecorders {
 public:
  explicit FlightRecorders(const World& world);

  [[nodiscard]] FlightRecorder& of(int rank) const;
  [[nodiscard]] const std::vector<std::pair<int, std::unique_ptr<FlightRecorder>>>& all() const { return all_; }

 private:
  /// By rank, ascending.
  std::vector<std::pair<int, std::unique_ptr<FlightRecorder>>> all_;
};

/// Wraps a communicator so that `recorder` notes every communication: of programs, agreements and checkpoints.
/// `ends_at_wait`: true if a communication is complete when Request::wait() returns, as in host memory. Otherwise it is
/// when check() returns.
[[nodiscard]] std::unique_ptr<Communicator> recorded(std::unique_ptr<Communicator> communicator,
                                                     FlightRecorder& recorder, bool ends_at_wait);

}  // namespace strata::host

#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "diagnosis/record_folder.hpp"
#include "runtime/flight_recorder.hpp"
#include "runtime/rank_threads.hpp"

namespace strata::host {

/// Finds ranks of this process that do not get on: those whose records have not moved for an interval.
class Watchdog {
 public:
  /// `interval`: in seconds; 0 finds none. The recorders outlive the watchdog.
  Watchdog(const FlightRecorders& recorders, double interval);

  struct Findings {
    /// One message for all ranks that do the same, those that do not wait for others first, and messages about ranks
    /// that go on.
    std::vector<std::string> messages;
    /// True if a rank has been found hanging, again or for the first time.
    bool hangs = false;
  };
  /// Looks at all ranks. A rank that hangs is found after the interval, twice the interval, four times, and so on.
  /// `now`: seconds of a clock that stands still while the process is stopped.
  Findings look(double now);
  /// What all ranks do that have not ended, and since when, whether they hang or not. `now`: of the last look.
  [[nodiscard]] std::vector<std::string> describe_all(double now) const;

 private:
  struct Seen {
    std::uint64_t moves = 0;
    double since = 0;
    /// Seconds of standing still after which the rank is named next.
    double patience = 0;
  };

  const FlightRecorders& recorders_;
  double interval_;
  std::map<int, Seen> seen_;
};

/// Judges whether the ranks of a run that was asked to stop will do so. They will not if none of them moves for a
/// while. Slow ranks move, and ranks that write a checkpoint are left alone.
class StopGrace {
 public:
  /// `seconds`: of standing still; 0: ranks are never given up. The recorders outlive this object.
  StopGrace(const FlightRecorders& recorders, double seconds) : recorders_(recorders), seconds_(seconds) {}

  /// Looks at the ranks of this process. `now`: Watchdog::look(). \return true if `is_asked` and no rank has moved for
  /// patience() since it was false.
  bool look(double now, bool is_asked);
  /// True if the record of a rank of another process says that it may get on.
  [[nodiscard]] bool may_go_on(const FlightRecord& record) const;

 private:
  /// A device with streams executes a whole step while its rank stands still. So ranks that have gone on after a long
  /// standstill may need twice that time.
  [[nodiscard]] double patience() const;

  const FlightRecorders& recorders_;
  double seconds_;
  /// Of all ranks.
  std::uint64_t moves_ = 0;
  /// When a rank moved last.
  std::optional<double> moved_at_;
  std::optional<double> asked_at_;
  /// True if a rank trained or evaluated at the last look.
  bool computes_ = false;
  /// Longest standstill so far in which ranks trained or evaluated.
  double longest_ = 0;
};

/// How a process looks for ranks that hang.
struct DiagnosisSettings {
  /// Seconds without a move after which a rank is named; 0: ranks are not watched.
  double interval = 0;
  /// Where records are written; empty: nowhere.
  std::filesystem::path folder = {};
  /// True if the run was asked to stop, and may be stopped now. Called on the thread. Empty: it never is.
  std::function<bool()> asked_to_stop = {};
  /// StopGrace::seconds.
  double stop_grace = 0;
};

/// Records what the ranks of a process do. A thread of its own names ranks that hang, and writes the records of all
/// ranks if one hangs, if a rank of any process has failed, or on request (SIGQUIT). It stops the ranks of a run
/// that was asked to stop and hangs.
class RunDiagnosis {
 public:
  /// `say`: called on the thread.
  RunDiagnosis(const World& world, DiagnosisSettings settings, std::function<void(const std::string&)> say);

  [[nodiscard]] const FlightRecorders& recorders() const { return recorders_; }
  /// A rank of this process has failed, and its recorder knows. Writes its record, and those of the others if it is the
  /// first one. Thread-safe.
  void failed(int rank, const std::exception_ptr& error);
  /// RankWatch::stoppable.
  void set_stop(StopRanks stop);

 private:
  void watch(const std::stop_token& stop);
  /// One look of the thread.
  void look(double now);
  void name_standstills(double now);
  void answer_signal();
  void stop_if_hung(double now);
  /// Whether a rank of another process may get on. Their answers take some looks.
  [[nodiscard]] bool others_may_go_on(double now);
  void tell_folder();
  /// Asks the other processes for their records.
  void request(const std::string& reason);
  /// \return true if there is a folder, and all records were written.
  bool write_all();
  /// `write` may write files. Says once why it fails.
  bool try_to(const std::function<void()>& write);
  [[nodiscard]] std::string rank_text() const;

  FlightRecorders recorders_;
  DiagnosisSettings settings_;
  int rank_count_;
  std::function<void(const std::string&)> say_;
  Watchdog watchdog_;
  StopGrace stop_grace_;
  /// Guards the files and the next three members.
  std::mutex files_;
  std::optional<RecordFolder> folder_;
  bool any_failed_ = false;
  bool has_complained_ = false;
  // Used by the thread only.
  bool has_told_folder_ = false;
  std::uint64_t signals_;
  /// When the other processes were asked whether their ranks get on.
  std::optional<double> others_asked_;
  bool has_stopped_ = false;
  /// Guards stop_, also while it is called.
  std::mutex stopping_;
  StopRanks stop_;
  std::jthread thread_;
};

}  // namespace strata::host

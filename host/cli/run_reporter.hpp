#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diagnosis/run_signals.hpp"
#include "files/exit_codes.hpp"
#include "files/phase_times.hpp"
#include "files/text_format.hpp"
#include "log/progress.hpp"
#include "log/run_log.hpp"
#include "log/training_record.hpp"
#include "train/deadline.hpp"
#include "train/trainer.hpp"

namespace strata::host {

inline std::string describe(const GraphUse& use) {
  if (use.refusal) return "steps are launched without graphs: " + *use.refusal;
  return fmt::format("steps are launched as {} graph(s) of {} of their {} instructions{}", use.graphs, use.captured,
                     use.instructions,
                     use.communication_outside ? "; communication stays outside: " + *use.communication_outside : "");
}

inline std::string describe(const CheckpointRecord& record) {
  const std::string waited =
      record.wait_seconds < 0.01 ? "" : format_line("waited %.2f s for the one before, ", record.wait_seconds);
  return "checkpoint " + record.path.string() + ": " + waited +
         format_line("training paused %.2f s, written in %.2f s", record.pause_seconds, record.write_seconds);
}

inline std::string describe(const HealthRecord& rewind) {
  return fmt::format("step {}: {}; going back to {} (rewind {}), and leaving out samples {} to {}", rewind.step,
                     rewind.reason, rewind.checkpoint.empty() ? "the start" : rewind.checkpoint.string(),
                     rewind.rewinds, rewind.left_out.begin, rewind.left_out.end - 1);
}

/// What the reports of a run know about each step, besides the step's results.
struct StepFacts {
  /// model_flops() of a step.
  double model_flops = 0;
  /// Peak rate of all devices in FLOP/s; 0 if it is not known.
  double peak_flops = 0;
  /// Planned bytes of the first rank's arena.
  std::int64_t planned_bytes = 0;
};

using RunLogs = std::vector<std::unique_ptr<RunLog>>;
using MakeProgress = std::function<std::unique_ptr<Progress>(std::uint64_t first_step)>;

/// Forwards the trainer's reports to the progress line and the logs, and stops the run on signals and deadlines. A
/// process without the first rank only stops.
class RunReporter : public TrainingObserver {
 public:
  RunReporter(const RunSection& run, Log& log) : deadline_(run), messages_(log) {
    messages_.set_listener([this](bool is_error, const std::string& text) { record({is_error, text}); });
  }
  ~RunReporter() override { messages_.set_listener(nullptr); }
  RunReporter(const RunReporter&) = delete;
  RunReporter& operator=(const RunReporter&) = delete;

  /// Reports from the start on: with `progress`, which gets the first step, and to `logs`. `prepare` changes the output
  /// folder before. Of all processes only this one asks when the job ends.
  void report(std::function<void()> prepare, MakeProgress progress, RunLogs logs) {
    prepare_ = std::move(prepare);
    make_progress_ = std::move(progress);
    logs_ = std::move(logs);
    const std::string remark = deadline_.set_job_end([](const char* name) { return std::getenv(name); });
    if (!remark.empty()) messages_.warning(remark);
  }

  void know(const StepFacts& facts) { facts_ = facts; }

  void prepare() override { prepare_(); }
  void started(const RunStart& start) override {
    signals_.training_begins();
    if (!make_progress_) return;
    for (const std::string& remark : start.remarks) messages_.warning(remark);
    progress_ = make_progress_(start.step);
    if (!start.checkpoint.empty()) {
      messages_.info(fmt::format("resuming after step {} from {}", start.step, start.checkpoint.string()));
    }
    for_each_log([&](RunLog& log) {
      // A restart keeps what the start before it recorded of its failure.
      if (start.checkpoint.empty() && restarts_so_far() == 0) {
        log.clear();
      } else {
        log.cut_back(start.step, start.evaluates, start.rewinds);
      }
    });
    record_early();
  }
  void step(const StepRecord& record) override {
    progress_->step(record);
    if (logs_.empty()) return;
    const StepRecord complete = completed(record);
    for_each_log([&](RunLog& log) { log.step(complete); });
    note_lost_records();
  }
  void ranks(const RankTimes& times) override {
    for_each_log([&](RunLog& log) { log.ranks(times); });
  }
  void health(const HealthRecord& record) override {
    for_each_log([&](RunLog& log) { log.health(record); });
    if (record.action != HealthAction::rewind) return;
    progress_.reset();
    progress_ = make_progress_(record.back_to);
    progress_->note(describe(record));
  }
  void graphs(const GraphUse& use) override { progress_->note(describe(use)); }
  void evaluation(const EvaluationRecord& record) override {
    progress_->evaluation(record);
    for_each_log([&](RunLog& log) { log.evaluation(record); });
  }
  void checkpoint(const CheckpointRecord& record) override {
    last_checkpoint_ = record.path;
    progress_->note(describe(record));
    for_each_log([&](RunLog& log) { log.checkpoint(record); });
  }
  void warning(const std::string& text) override {
    // Only the process with the first rank shows progress.
    if (!progress_) return messages_.warning(text);
    progress_->note("warning: " + text);
    record({false, text});
  }
  StopReason stop() override { return reason(); }
  bool asked_to_stop() const override { return reason() != StopReason::none; }
  void stuck(const std::string& report) override {
    // Its threads cannot be ended, so the process ends without them.
    messages_.error(report);
    ::_exit(kFailed);
  }
  void hangs(const std::string& text) override { messages_.warning(text); }
  void stopping(std::uint64_t step, StopReason reason) override {
    progress_->note(
        fmt::format("stopping after step {} on {}; a checkpoint is written first", step, host::describe(reason)));
  }

  void finish(const TrainingSummary& summary) {
    progress_.reset();
    for_each_log([&](RunLog& log) { log.summary(summary); });
  }
  /// Records why the run failed. A run that was refused before it started leaves no record.
  void fail(const std::exception& error) {
    const bool is_refused = !has_started_ && dynamic_cast<const ConfigurationError*>(&error) != nullptr;
    if (is_refused) return;
    record_early();
    record({true, error.what()});
  }
  [[nodiscard]] const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }

 private:
  [[nodiscard]] StopReason reason() const {
    const StopReason signal = signals_.stop();
    return signal != StopReason::none ? signal : deadline_.reached();
  }
  /// Adds what the trainer does not know.
  [[nodiscard]] StepRecord completed(StepRecord record) const {
    record.model_flops_per_second = facts_.model_flops / record.seconds;
    if (facts_.peak_flops > 0) record.utilisation = record.model_flops_per_second / facts_.peak_flops;
    record.memory.planned_bytes = facts_.planned_bytes;
    record.memory.resident_bytes = resident_bytes();
    return record;
  }

  /// Passes something on to all logs. Warnings come from other threads, too.
  template <class Function>
  void for_each_log(const Function& function) {
    const std::lock_guard lock(mutex_);
    for (const auto& log : logs_) function(*log);
    if (has_started_) record_waiting();
  }

  /// Records a line for people. Those before the start wait until the logs are those of this run, and those of other
  /// threads while a write to a log blocks, because the watchdog must not block too.
  void record(const LogMessage& message) {
    {
      const std::lock_guard lock(waiting_mutex_);
      waiting_.push_back(message);
    }
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock() && has_started_) record_waiting();
  }

  /// Records the lines that wait. Holds mutex_.
  void record_waiting() {
    std::vector<LogMessage> messages;
    {
      const std::lock_guard lock(waiting_mutex_);
      messages.swap(waiting_);
    }
    for (const LogMessage& message : messages) {
      for (const auto& log : logs_) log->message(message);
    }
  }

  void record_early() {
    const std::lock_guard lock(mutex_);
    has_started_ = true;
    record_waiting();
  }

  /// Warns once for each log that misses lines. Training goes on without them.
  void note_lost_records() {
    std::vector<std::string> failures;
    for_each_log([&](const RunLog& log) {
      if (log.failure() && lossy_logs_.insert(&log).second) failures.push_back(*log.failure());
    });
    for (const std::string& failure : failures) warning(failure + "; training goes on, but lines of the log are lost");
  }

  RunSignals signals_{kStopped};
  Deadline deadline_;
  Log& messages_;
  std::function<void()> prepare_;
  MakeProgress make_progress_;
  StepFacts facts_;
  std::set<const RunLog*> lossy_logs_;
  std::unique_ptr<Progress> progress_;
  /// Guards the two below.
  std::mutex mutex_;
  RunLogs logs_;
  bool has_started_ = false;
  std::mutex waiting_mutex_;
  std::vector<LogMessage> waiting_;
  std::filesystem::path last_checkpoint_;
};

}  // namespace strata::host

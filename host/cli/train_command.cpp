#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "cli/commands.hpp"
#include "cluster/cluster_file.hpp"
#include "diagnosis/record_folder.hpp"
#include "diagnosis/run_signals.hpp"
#include "files/exit_codes.hpp"
#include "files/file_io.hpp"
#include "files/text_format.hpp"
#include "huggingface/initial_values.hpp"
#include "log/progress.hpp"
#include "log/run_log.hpp"
#include "log/training_record.hpp"
#include "reports/program_summary.hpp"
#include "runtime/product_rate.hpp"
#include "setup/joined_world.hpp"
#include "simulate/prediction.hpp"
#include "tokenizers/checkpoint_tokenizer.hpp"
#include "train/deadline.hpp"
#include "train/run_folder.hpp"
#include "train/trainer.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

std::string describe(const GraphUse& use) {
  if (use.refusal) return "steps are launched without graphs: " + *use.refusal;
  return fmt::format("steps are launched as {} graph(s) of {} of their {} instructions{}", use.graphs, use.captured,
                     use.instructions,
                     use.communication_outside ? "; communication stays outside: " + *use.communication_outside : "");
}

std::string describe(const CheckpointRecord& record) {
  const std::string waited =
      record.wait_seconds < 0.01 ? "" : format_line("waited %.2f s for the one before, ", record.wait_seconds);
  return "checkpoint " + record.path.string() + ": " + waited +
         format_line("training paused %.2f s, written in %.2f s", record.pause_seconds, record.write_seconds);
}

std::string describe(const HealthRecord& rewind) {
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
  [[nodiscard]] const fs::path& last_checkpoint() const { return last_checkpoint_; }

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
  fs::path last_checkpoint_;
};

bool is_terminal(const std::ostream& stream) { return &stream == &std::cerr && ::isatty(STDERR_FILENO) == 1; }

void describe_start(const RunSetup& setup, const DataSource& source, const Trainer& trainer, Log& log) {
  const std::int64_t parameters = parameter_count(trainer.programs().training.graph);
  const RunConfiguration& configuration = setup.configuration;
  log.info(fmt::format("run '{}': {} parameters, {}, {} rank(s), global batch {}, micro-batch {}, {} planned on rank 0",
                       configuration.run.name, short_number(static_cast<double>(parameters)), source.description(),
                       setup.stack.mesh.rank_count(), configuration.batch.global, configuration.batch.micro,
                       short_bytes(trainer.programs().planned_peak_bytes().front())));
  for (const std::string& remark : trainer.remarks()) log.warning(remark);
}

void print_result(const TrainingSummary& summary, const std::string& unit, const RunReporter& reporter,
                  std::ostream& out) {
  out << "steps " << summary.step << '\n';
  if (summary.loss) out << "loss " << *summary.loss << " nats per " << unit << '\n';
  if (summary.evaluation_loss) out << "validation loss " << *summary.evaluation_loss << " nats per " << unit << '\n';
  if (summary.predicted_step_seconds) {
    constexpr double kMilli = 1e-3;
    out << format_line("step %.2f ms, predicted %.2f ms", summary.median_step_seconds / kMilli,
                       *summary.predicted_step_seconds / kMilli)
        << '\n';
  }
  if (summary.median_tokens_per_second > 0) out << unit << "s/s " << summary.median_tokens_per_second << '\n';
  if (!reporter.last_checkpoint().empty()) out << "checkpoint " << reporter.last_checkpoint().string() << '\n';
}

/// Peak rate of all ranks' devices in FLOP/s; 0 if the configuration neither gives it nor lets it be measured.
double peak_flops(const RunSetup& setup, const Trainer& trainer) {
  const LogSection& log = setup.configuration.log;
  double rate = log.peak_tflops * 1e12;
  if (rate == 0 && log.tensorboard) {
    const DType type = product_type(trainer.programs().training.graph, *setup.ops);
    rate = measure_product_rate(*setup.make_device(0, trainer.world()), type);
  }
  return rate * setup.stack.mesh.rank_count();
}

/// What the simulation says if the configuration has a [cluster]. A wrong one does not keep a run from training.
std::optional<double> predicted_seconds(const RunSetup& setup, const Trainer& trainer, Log& log) {
  const ClusterSection& section = setup.configuration.cluster;
  if (section.table == nullptr) return std::nullopt;
  try {
    return simulate_step(trainer.programs().training, *setup.ops, read_cluster(*section.table)).seconds;
  } catch (const ConfigurationError& error) {
    log.warning("the time of a step is not predicted: " + std::string(error.what()));
    return std::nullopt;
  }
}

StepFacts facts_of(const RunSetup& setup, const Trainer& trainer) {
  const Compiled& training = trainer.programs().training;
  return {.model_flops = model_flops(training.graph, *setup.ops) * training.program(0).micro_batches,
          .peak_flops = peak_flops(setup, trainer),
          .planned_bytes = trainer.programs().planned_peak_bytes().front()};
}

RunLogs make_logs(const std::string& json, const RunConfiguration& configuration) {
  RunLogs logs;
  if (!json.empty()) logs.push_back(std::make_unique<TrainingLog>(json));
  const LogSection& section = configuration.log;
  if (section.tensorboard) logs.push_back(std::make_unique<TensorBoardLog>(configuration.run.output));
  if (!section.metrics.empty() || !section.heartbeat.empty()) {
    logs.push_back(std::make_unique<MetricsFile>(configuration, restarts_so_far()));
  }
  return logs;
}

/// What a process has before its ranks connect.
struct Preparation {
  DataSource source;
  std::shared_ptr<const ModelFiles> tokenizer;
  StartDecision start = {};
};

/// Opens what the run reads. The process that reports also locks the output folder, and decides how the run starts.
Preparation prepare_run(const RunSetup& setup, const TrainArguments& arguments, bool reports, RunOutput& held,
                        RunReporter& reporter, CommandContext& context) {
  Preparation preparation{setup.open_data(), named_tokenizer(setup)};
  const RunSection& run = setup.configuration.run;
  const fs::path output = run.output;
  held.open(reports);
  if (!reports) return preparation;
  if (!held.is_alone()) {
    context.log.warning("run.output '" + output.string() +
                        "' is on a file system without locks; another run could write there");
  }
  preparation.start = decide_start(setup.configuration, arguments.overwrite);
  const Progress::Style style{is_terminal(context.messages), run.log_every, setup.unit};
  const auto make_progress = [&context, &run, style](std::uint64_t first_step) {
    return std::make_unique<Progress>(context.messages, style, first_step, static_cast<std::uint64_t>(run.last_step()));
  };
  const auto prepare = [output, start = preparation.start] {
    archive_records(output);
    begin_run(output, start);
  };
  reporter.report(prepare, make_progress, make_logs(arguments.log_json, setup.configuration));
  return preparation;
}

int train(const RunSetup& setup, const TrainArguments& arguments, RunOutput& held, RunReporter& reporter,
          CommandContext& context) {
  const RunSection& run = setup.configuration.run;
  const fs::path output = run.output;
  // All processes of the run come together first, so that those that fail from then on end the others.
  std::unique_ptr<World> world = setup.make_world();
  // Only one process of a run reports, and decides how it starts. All of them may write to the output folder.
  const bool reports = has_first_rank(*world);
  const Preparation preparation =
      before_connecting(world, [&] { return prepare_run(setup, arguments, reports, held, reporter, context); });
  const CheckpointSettings checkpoints{.directory = output / "checkpoints",
                                       .every = run.checkpoint_every,
                                       .keep = static_cast<int>(run.keep_checkpoints),
                                       .mode = run.checkpoint_mode,
                                       .identity = preparation.start.identity,
                                       .tokenizer = preparation.tokenizer};
  Trainer trainer(setup, preparation.source, checkpoints, nullptr, reporter, std::move(world));
  trainer.choose_from(preparation.start.candidates);
  trainer.record_in(output / kDiagnosisName);
  if (reports) {
    reporter.know(facts_of(setup, trainer));
    describe_start(setup, preparation.source, trainer, context.log);
  }
  const std::optional<double> predicted =
      reports ? predicted_seconds(setup, trainer, context.log) : std::optional<double>();
  TrainingSummary summary = trainer.run();
  summary.predicted_step_seconds = predicted;
  const bool stopped = summary.stopped != StopReason::none;
  if (reports) {
    reporter.finish(summary);
    if (stopped) {
      context.log.info(
          fmt::format("stopped after step {}; continue with the same command and --resume auto", summary.step));
    }
    print_result(summary, setup.unit, reporter, context.out);
    context.flush_results();
  }
  return stopped ? kStopped : 0;
}

int train(const TrainArguments& arguments, CommandContext& context) {
  const RunSetup setup = prepare_run(arguments.load(), context.plugins());
  RunOutput held(setup.configuration.run.output);
  RunReporter reporter(setup.configuration.run, context.log);
  try {
    return train(setup, arguments, held, reporter, context);
  } catch (const std::exception& error) {
    reporter.fail(error);
    throw;
  }
}

}  // namespace

void add_train_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] =
      add_command<TrainArguments>(app, context, "train", "Train the model of a configuration", train);
  add_training(*command, *arguments);
}

}  // namespace strata::host

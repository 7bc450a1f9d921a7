#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "cli/closed_output.hpp"
#include "cli/commands.hpp"
#include "cli/exit_codes.hpp"
#include "cli/train_arguments.hpp"
#include "diagnosis/record_folder.hpp"
#include "diagnosis/record_signal.hpp"
#include "train/checkpoint/file_io.hpp"
#include "train/data/text_format.hpp"
#include "train/run/deadline.hpp"
#include "train/run/progress.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/stop_signal.hpp"
#include "train/run/trainer.hpp"
#include "train/run/training_log.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

std::string describe(const GraphUse& use) {
  if (use.refusal) return "steps are launched without graphs: " + *use.refusal;
  return "steps are launched as " + std::to_string(use.graphs) + " graph(s) of " + std::to_string(use.captured) +
         " of their " + std::to_string(use.instructions) + " instructions" +
         (use.communication_outside ? "; communication stays outside: " + *use.communication_outside : "");
}

std::string describe(const CheckpointRecord& record) {
  const std::string waited =
      record.wait_seconds < 0.01 ? "" : format_line("waited %.2f s for the one before, ", record.wait_seconds);
  return "checkpoint " + record.path.string() + ": " + waited +
         format_line("training paused %.2f s, written in %.2f s", record.pause_seconds, record.write_seconds);
}

std::string describe(const HealthRecord& rewind) {
  return "step " + std::to_string(rewind.step) + ": " + rewind.reason + "; going back to " +
         (rewind.checkpoint.empty() ? "the start" : rewind.checkpoint.string()) + " (rewind " +
         std::to_string(rewind.rewinds) + "), and leaving out samples " + std::to_string(rewind.left_out.begin) +
         " to " + std::to_string(rewind.left_out.end - 1);
}

using MakeProgress = std::function<std::unique_ptr<Progress>(std::uint64_t first_step)>;

/// Forwards the trainer's reports to the progress line and the log, and stops the run on signals and deadlines. A
/// process without the first rank only stops.
class RunReporter : public TrainingObserver {
 public:
  RunReporter(const RunSection& run, Log& log) : deadline_(run), messages_(log) {}

  /// Reports from the start on: with `progress`, which gets the first step, and to `log` unless it is null. `prepare`
  /// changes the output folder before. Of all processes only this one asks when the job ends.
  void report(std::function<void()> prepare, MakeProgress progress, std::unique_ptr<TrainingLog> log) {
    prepare_ = std::move(prepare);
    make_progress_ = std::move(progress);
    log_ = std::move(log);
    const std::string remark = deadline_.set_job_end([](const char* name) { return std::getenv(name); });
    if (!remark.empty()) messages_.warning(remark);
  }

  void prepare() override { prepare_(); }
  void started(const RunStart& start) override {
    signal_.training_begins();
    if (!make_progress_) return;
    for (const std::string& remark : start.remarks) messages_.warning(remark);
    progress_ = make_progress_(start.step);
    if (!start.checkpoint.empty()) {
      messages_.info("resuming after step " + std::to_string(start.step) + " from " + start.checkpoint.string());
    }
    if (!log_) return;
    if (start.checkpoint.empty()) return log_->clear();
    log_->cut_back(start.step, start.evaluates, start.rewinds);
  }
  void step(const StepRecord& record) override {
    progress_->step(record);
    if (log_) log_->step(record);
    note_lost_lines();
  }
  void ranks(const RankTimes& times) override {
    if (log_) log_->ranks(times);
  }
  void health(const HealthRecord& record) override {
    if (log_) log_->health(record);
    if (record.action != HealthAction::rewind) return;
    progress_.reset();
    progress_ = make_progress_(record.back_to);
    progress_->note(describe(record));
  }
  void graphs(const GraphUse& use) override { progress_->note(describe(use)); }
  void evaluation(const EvaluationRecord& record) override {
    progress_->evaluation(record);
    if (log_) log_->evaluation(record);
  }
  void checkpoint(const CheckpointRecord& record) override {
    last_checkpoint_ = record.path;
    progress_->note(describe(record));
    if (log_) log_->checkpoint(record);
  }
  void warning(const std::string& text) override {
    // Only the process with the first rank shows progress.
    if (progress_) return progress_->note("warning: " + text);
    messages_.warning(text);
  }
  StopReason stop() override {
    const int signal = signal_.received();
    return signal != 0 ? reason_of_signal(signal) : deadline_.reached();
  }
  void stuck(const std::string& report) override {
    // Its threads cannot be ended, so the process ends without them.
    messages_.error(report);
    ::_exit(kFailed);
  }
  void hangs(const std::string& text) override { messages_.warning(text); }
  void stopping(std::uint64_t step, StopReason reason) override {
    progress_->note("stopping after step " + std::to_string(step) + " on " + host::describe(reason) +
                    "; a checkpoint is written first");
  }

  void finish(const TrainingSummary& summary) {
    progress_.reset();
    if (log_) log_->summary(summary);
  }
  [[nodiscard]] const fs::path& last_checkpoint() const { return last_checkpoint_; }

 private:
  /// Warns once that the log misses lines. Training goes on without them.
  void note_lost_lines() {
    if (has_lost_lines_ || !log_ || !log_->failure()) return;
    has_lost_lines_ = true;
    progress_->note("warning: " + *log_->failure() + "; training goes on, and the log misses lines");
  }

  StopSignal signal_{kStopped};
  RecordSignal record_signal_;
  Deadline deadline_;
  Log& messages_;
  std::function<void()> prepare_;
  MakeProgress make_progress_;
  bool has_lost_lines_ = false;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<TrainingLog> log_;
  fs::path last_checkpoint_;
};

bool is_terminal(const std::ostream& stream) { return &stream == &std::cerr && ::isatty(STDERR_FILENO) == 1; }

void make_output(const fs::path& output) {
  std::error_code error;
  fs::create_directories(output, error);
  if (error) throw RuntimeError("run.output '" + output.string() + "': cannot be created: " + error.message());
}

/// Locks the output folder, so that no other run writes to it.
std::unique_ptr<FileLock> lock_output(const fs::path& output) {
  return std::make_unique<FileLock>(output / ".lock", "run.output '" + output.string() + "' is in use by another run");
}

void describe_start(const RunSetup& setup, const DataSource& source, const Trainer& trainer, Log& log) {
  std::int64_t parameters = 0;
  for (const CheckpointTensor& tensor : plan_checkpoint(rank_programs(trainer.programs().training))) {
    if (!tensor.name.starts_with("optimizer/")) parameters += element_count(tensor.shape);
  }
  const RunConfiguration& configuration = setup.configuration;
  log.info("run '" + configuration.run.name + "': " + short_number(static_cast<double>(parameters)) + " parameters, " +
           source.description() + ", " + std::to_string(setup.stack.mesh.rank_count()) + " rank(s), global batch " +
           std::to_string(configuration.batch.global) + ", micro-batch " + std::to_string(configuration.batch.micro) +
           ", " + short_bytes(trainer.programs().planned_peak_bytes().front()) + " planned on rank 0");
  for (const std::string& remark : trainer.remarks()) log.warning(remark);
}

void print_result(const TrainingSummary& summary, const std::string& unit, const RunReporter& reporter,
                  std::ostream& out) {
  out << "steps " << summary.step << '\n';
  if (summary.loss) out << "loss " << *summary.loss << " nats per " << unit << '\n';
  if (summary.evaluation_loss) out << "validation loss " << *summary.evaluation_loss << " nats per " << unit << '\n';
  if (summary.median_tokens_per_second > 0) out << unit << "s/s " << summary.median_tokens_per_second << '\n';
  if (!reporter.last_checkpoint().empty()) out << "checkpoint " << reporter.last_checkpoint().string() << '\n';
}

int train(const TrainArguments& arguments, CommandContext& context) {
  const RunSetup setup = prepare(arguments.load(), context.plugins());
  const RunSection& run = setup.configuration.run;
  RunReporter reporter(run, context.log);
  const DataSource source = setup.open_data();

  std::unique_ptr<World> world = setup.make_world();
  // Only one process of a run reports, and decides how it starts. All of them may write to the output folder.
  const bool reports = has_first_rank(*world);
  const fs::path output = run.output;
  make_output(output);
  const std::unique_ptr<FileLock> lock = reports ? lock_output(output) : nullptr;
  if (lock && !lock->holds()) {
    context.log.warning("run.output '" + output.string() +
                        "' is on a file system without locks; another run could write there");
  }
  StartDecision start;
  if (reports) {
    start = decide_start(setup.configuration, arguments.overwrite);
    std::unique_ptr<TrainingLog> log;
    if (!arguments.log_json.empty()) log = std::make_unique<TrainingLog>(arguments.log_json);
    const Progress::Style style{is_terminal(context.messages), run.log_every, setup.unit};
    const auto make_progress = [&context, &run, style](std::uint64_t first_step) {
      return std::make_unique<Progress>(context.messages, style, first_step, static_cast<std::uint64_t>(run.steps));
    };
    reporter.report([&] { begin_run(output, start); }, make_progress, std::move(log));
  }
  const CheckpointSettings checkpoints{.directory = output / "checkpoints",
                                       .every = run.checkpoint_every,
                                       .keep = static_cast<int>(run.keep_checkpoints),
                                       .mode = run.checkpoint_mode,
                                       .identity = start.identity};
  Trainer trainer(setup, source, checkpoints, nullptr, reporter, std::move(world));
  trainer.choose_from(start.candidates);
  trainer.record_in(output / kDiagnosisName);
  if (reports) {
    archive_records(output);
    describe_start(setup, source, trainer, context.log);
  }
  const TrainingSummary summary = trainer.run();
  const bool stopped = summary.stopped != StopReason::none;
  if (reports) {
    reporter.finish(summary);
    if (stopped) {
      context.log.info("stopped after step " + std::to_string(summary.step) +
                       "; continue with the same command and --resume auto");
    }
    print_result(summary, setup.unit, reporter, context.out);
    flush_results(context);
  }
  return stopped ? kStopped : 0;
}

}  // namespace

void add_train_command(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train the model of a configuration");
  arguments->add_to(*command);
  command->callback(
      [arguments, &context] { context.action = [arguments, &context] { return train(*arguments, context); }; });
}

}  // namespace strata::host

#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/train_arguments.hpp"
#include "train/checkpoint/file_io.hpp"
#include "train/data/text_format.hpp"
#include "train/run/progress.hpp"
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

/// Forwards the trainer's reports to the progress line and the log.
class RunReporter : public TrainingObserver {
 public:
  RunReporter(std::unique_ptr<Progress> progress, std::unique_ptr<TrainingLog> log)
      : progress_(std::move(progress)), log_(std::move(log)) {}

  void step(const StepRecord& record) override {
    progress_->step(record);
    if (log_) log_->step(record);
    note_lost_lines();
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
  void warning(const std::string& text) override { progress_->note("warning: " + text); }
  bool stop() override {
    if (signal_.received() == 0) return false;
    progress_->note("stopping on request; a checkpoint is written first");
    return true;
  }

  void finish(const TrainingSummary& summary) {
    progress_.reset();
    if (log_) log_->summary(summary);
  }
  [[nodiscard]] bool was_stopped() const { return signal_.received() != 0; }
  [[nodiscard]] const fs::path& last_checkpoint() const { return last_checkpoint_; }

 private:
  /// Warns once that the log misses lines. Training goes on without them.
  void note_lost_lines() {
    if (has_lost_lines_ || !log_ || !log_->failure()) return;
    has_lost_lines_ = true;
    progress_->note("warning: " + *log_->failure() + "; training goes on, and the log misses lines");
  }

  bool has_lost_lines_ = false;
  StopSignal signal_;
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
  const DataSource source = setup.open_data();
  std::unique_ptr<CheckpointReader> resume;
  if (!arguments.resume.empty()) resume = std::make_unique<CheckpointReader>(find_checkpoint(arguments.resume));

  std::unique_ptr<World> world = setup.make_world();
  // Only one process of a run reports. All of them may write to the output folder.
  const bool reports = has_first_rank(*world);
  const fs::path output = run.output;
  make_output(output);
  const std::unique_ptr<FileLock> lock = reports ? lock_output(output) : nullptr;
  if (lock && !lock->holds()) {
    context.log.warning("run.output '" + output.string() +
                        "' is on a file system without locks; another run could write there");
  }
  std::unique_ptr<TrainingLog> log;
  if (reports && !arguments.log_json.empty())
    log = std::make_unique<TrainingLog>(arguments.log_json, resume != nullptr);
  const std::uint64_t first_step = resume ? resume->run().step : 0;
  auto progress = std::make_unique<Progress>(context.messages,
                                             Progress::Style{is_terminal(context.messages), run.log_every, setup.unit},
                                             first_step, static_cast<std::uint64_t>(run.steps));
  RunReporter reporter(std::move(progress), std::move(log));

  const CheckpointSettings checkpoints{output / "checkpoints", run.checkpoint_every,
                                       static_cast<int>(run.keep_checkpoints), run.checkpoint_mode};
  Trainer trainer(setup, source, checkpoints, resume.get(), reporter, std::move(world));
  if (reports) describe_start(setup, source, trainer, context.log);
  if (reports && resume) {
    context.log.info("resuming after step " + std::to_string(first_step) + " from " + resume->directory().string());
  }
  const TrainingSummary summary = trainer.run();
  if (!reports) return 0;
  reporter.finish(summary);
  if (reporter.was_stopped()) {
    context.log.info("stopped after step " + std::to_string(summary.step) + "; continue with --resume " +
                     output.string());
  }
  print_result(summary, setup.unit, reporter, context.out);
  return 0;
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

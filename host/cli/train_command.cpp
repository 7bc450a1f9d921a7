#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "cli/run_reporter.hpp"
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
#include "setup/tuning.hpp"
#include "simulate/prediction.hpp"
#include "tokenizers/checkpoint_tokenizer.hpp"
#include "train/run_folder.hpp"
#include "train/trainer.hpp"

namespace strata::host {
namespace {

bool is_terminal(const std::ostream& stream) { return &stream == &std::cerr && ::isatty(STDERR_FILENO) == 1; }

void describe_start(const RunSetup& setup, const DataSource& source, const Trainer& trainer, Log& log) {
  const std::int64_t parameters = parameter_count(trainer.programs().training.graph);
  const RunConfiguration& configuration = setup.configuration;
  log.info(fmt::format("run '{}': {} parameters, {}, {} rank(s), global batch {}, micro-batch {}, {} planned on rank 0",
                       configuration.run.name, short_number(static_cast<double>(parameters)), source.description(),
                       setup.stack.mesh.rank_count(), configuration.batch.global, configuration.batch.micro,
                       short_bytes(trainer.programs().planned_peak_bytes().front())));
  for (const std::string& decision : setup.decisions) log.info(decision);
  for (const std::string& remark : trainer.remarks()) log.warning(remark);
}

void print_result(const TrainingSummary& summary, const std::string& unit, const RunReporter& reporter,
                  std::ostream& out) {
  out << "steps " << summary.step << '\n';
  if (summary.loss) out << "loss " << *summary.loss << " nats per " << unit << '\n';
  if (summary.evaluation_loss) out << "validation loss " << *summary.evaluation_loss << " nats per " << unit << '\n';
  for (const Metric& each : summary.evaluation_metrics) {
    out << "validation " << each.name << ' ' << each.value << '\n';
  }
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
  const std::filesystem::path output = run.output;
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
  const std::filesystem::path output = run.output;
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
  Trainer trainer(setup, preparation.source, checkpoints, preparation.start.candidates, reporter, std::move(world));
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
  RunSetup setup = prepare_run(arguments.load(), context.plugins());
  tune(setup, context.plugins());
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

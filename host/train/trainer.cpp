#include "train/trainer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>

#include "compiler/placement/bucket.hpp"
#include "diagnosis/run_diagnosis.hpp"
#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "setup/agreement.hpp"
#include "strata/error.hpp"
#include "train/step_metrics.hpp"

namespace strata::host {
namespace {

/// Time that ranks get to end after another one has failed.
constexpr std::chrono::seconds kPatience{30};

/// What the ranks tell each other between two steps, or between two batches of an evaluation. The largest value of each
/// field holds for all.
struct Decision {
  bool data_failed = false;
  /// A reason to stop before the next step.
  StopReason stop = StopReason::none;

  [[nodiscard]] bool goes_on() const { return !data_failed && stop == StopReason::none; }
};

}  // namespace

/// The work of one rank's thread.
class Trainer::Rank {
 public:
  Rank(Trainer& trainer, Device& device, Communicator& communicator, FlightRecorder& recorder)
      : trainer_(trainer),
        rank_(communicator.rank()),
        recorder_(recorder),
        agreement_(communicator, device, 2 + RankTimeValues::count(communicator.rank_count())),
        times_(communicator.rank_count()),
        arena_(std::make_shared<Arena>(device, trainer.summary_.planned_peak_bytes.at(index()))),
        offload_(make_offload_memory(trainer.summary_.planned_offload.at(index()),
                                     trainer.setup_.offload_directory(trainer.programs_.training.program(rank_)))),
        training_(executor(trainer.programs_.training, device, communicator)),
        scaler_(trainer.programs_.training),
        health_(trainer.setup_.configuration.health),
        tells_graphs_(!device.is_host_memory()),
        checkpoints_(*trainer.checkpoint_share_, rank_, speaks(), device, agreement_,
                     [this](const BufferSlice& slice, void* host) { training_->read(slice, host); }) {
    if (trainer.programs_.evaluation) evaluation_ = executor(*trainer.programs_.evaluation, device, communicator);
    trainer.choice_->settle(agreement_, rank_, [this](const CheckpointReader* checkpoint) { begin(checkpoint); });
    const auto prepare = [&] {
      trainer.observer_.prepare();
      trainer.prepare_store();
    };
    agreement_.work_together(leads() ? prepare : std::function<void()>());
    std::call_once(trainer.reads_, [&] { trainer.start_reading(); });
  }

  void run() {
    const RunSection& settings = trainer_.setup_.configuration.run;
    const auto steps = static_cast<std::uint64_t>(settings.last_step());
    std::uint64_t step = trainer_.start_.step;
    bool evaluation_due = trainer_.start_.evaluation_due && settings.eval_every > 0;
    Decision decision = agree(step);
    tell_start(evaluation_due);
    if (evaluation_due && decision.goes_on()) {
      decision = evaluate(step);
      evaluation_due = !decision.goes_on();
    }
    while (step < steps && decision.goes_on()) {
      if (const std::optional<HealthRecord> bad = train(step)) {
        step = recover(step, *bad);
        decision = agree(step);
        continue;
      }
      ++step;
      checkpoints_.poll();
      decision = agree(step);
      evaluation_due = is_due(step, settings.eval_every) || (step == steps && settings.eval_every > 0);
      if (evaluation_due && decision.goes_on()) {
        decision = evaluate(step);
        evaluation_due = !decision.goes_on();
      }
      const bool ends = !decision.goes_on() || step == steps;
      if (is_due(step, trainer_.checkpoints_.every) || ends) {
        write_checkpoint(step, evaluation_due, ends);
      }
    }
    recorder_.begin(Activity::saving, step);
    const std::optional<std::string> failure = checkpoints_.finish();
    if (speaks()) trainer_.checkpoint_failure_ = failure;
    const bool is_complete = step == steps && !evaluation_due;
    if (speaks() && !decision.data_failed && !is_complete) trainer_.summary_.stopped = decision.stop;
    gather_peaks();
  }

 private:
  [[nodiscard]] std::size_t index() const { return static_cast<std::size_t>(rank_); }
  [[nodiscard]] bool leads() const { return rank_ == 0; }
  /// True for the first rank of this process.
  [[nodiscard]] bool speaks() const { return rank_ == trainer_.world_->local_ranks().front(); }
  [[nodiscard]] static bool is_due(std::uint64_t step, std::int64_t every) {
    return every > 0 && step % static_cast<std::uint64_t>(every) == 0;
  }

  std::unique_ptr<Executor> executor(const Compiled& compiled, Device& device, Communicator& communicator) const {
    auto made = std::make_unique<Executor>(compiled.program(rank_), compiled.plan(rank_), rank_, trainer_.setup_.seed(),
                                           device, communicator, arena_, offload_, !compiled.has_transfers());
    made->record_in(recorder_);
    return made;
  }

  void begin(const CheckpointReader* checkpoint) {
    trainer_.begin(checkpoint);
    if (checkpoint != nullptr) health_.restore(checkpoint->run().health.value_or(HealthState{}));
    restore(checkpoint);
  }

  /// Restores everything that a checkpoint has but the state of the rules, or initialises it if there is none.
  void restore(const CheckpointReader* checkpoint) {
    recorder_.begin(Activity::restoring, trainer_.start_.step);
    scaler_ = LossScaler(trainer_.programs_.training);
    if (checkpoint == nullptr) {
      initialize(*training_, trainer_.setup_.seed());
      if (trainer_.setup_.initial) restore_values_together(*trainer_.setup_.initial, *training_, agreement_);
      return;
    }
    if (const auto& scaler = checkpoint->run().loss_scaler) scaler_.restore(*scaler);
    restore_together(*checkpoint, *training_, agreement_);
    initialize_constants(*training_, trainer_.setup_.seed());
  }

  /// Waits for the data of `step`, unless the run ends before it. All ranks agree whether the step runs.
  Decision agree(std::uint64_t step) {
    Decision own;
    const bool has_trained = step > trainer_.start_.step;
    std::optional<std::string> failure;
    recorder_.begin(Activity::reading, step);
    if (step < static_cast<std::uint64_t>(trainer_.setup_.configuration.run.last_step())) {
      ReadAhead::Outcome outcome = trainer_.training_data_->wait(step);
      data_wait_seconds_ = outcome.wait_seconds;
      failure = std::move(outcome.failure);
      own.data_failed = failure.has_value();
    }
    // Each start trains a step, so that a run with little time goes on nevertheless.
    if (has_trained) own.stop = own_reason();
    const Decision common = combine(own, step, times_.values());
    tell_times(step);
    if (common.data_failed) {
      trainer_.note_data_failure("step " + std::to_string(step + 1), has_trained ? std::optional(step) : std::nullopt,
                                 failure);
    }
    return common;
  }

  [[nodiscard]] StopReason own_reason() const { return speaks() ? trainer_.observer_.stop() : StopReason::none; }

  /// The decision of all ranks. `step`: the last complete one. `times`: of all ranks, the largest of which hold, too.
  Decision combine(const Decision& own, std::uint64_t step, std::span<double> times = {}) {
    std::vector<double> values{own.data_failed ? 1.0 : 0.0, static_cast<double>(own.stop)};
    values.insert(values.end(), times.begin(), times.end());
    agreement_.largest(values);
    std::copy(values.begin() + 2, values.end(), times.begin());
    const Decision common{values[0] > 0.5, static_cast<StopReason>(static_cast<int>(values[1]))};
    if (!common.data_failed && !common.goes_on() && leads()) trainer_.observer_.stopping(step, common.stop);
    return common;
  }

  void tell_times(std::uint64_t step) {
    if (!std::exchange(tells_times_, false)) return;
    const RankTimes times = times_.times(step);
    trainer_.observer_.ranks(times);
    for (const std::string& sentence : stragglers_.note(times)) trainer_.observer_.warning(sentence);
  }

  void tell_start(bool evaluates) {
    RunStart start{trainer_.start_.step, evaluates, {}, health_.state().rewinds, {}};
    if (trainer_.resume_ != nullptr) start.checkpoint = trainer_.resume_->directory();
    start.remarks = trainer_.choice_->skipped();
    if (trainer_.dropped_) start.remarks.push_back(*trainer_.dropped_);
    const auto tell = [&] { trainer_.observer_.started(start); };
    agreement_.work_together(speaks() ? tell : std::function<void()>());
  }

  /// \return the step's record if it is bad and the run stops or goes back.
  std::optional<HealthRecord> train(std::uint64_t step) {
    using Clock = std::chrono::steady_clock;
    StepRecord record;
    record.step = step + 1;
    record.learning_rate = trainer_.schedule_(step);
    if (scaler_.is_active()) record.loss_scale = scaler_.state().scale;
    write_limits(*training_, health_);
    recorder_.begin(Activity::training, record.step);
    const Clock::time_point begin = Clock::now();
    const Reports reports = training_->run({.step = step,
                                            .learning_rate = record.learning_rate,
                                            .weight_decay_factor = trainer_.weight_decay_(step),
                                            .loss_scale = scaler_.factor(),
                                            .skipped_steps = scaler_.state().skipped_steps},
                                           *trainer_.training_data_);
    trainer_.training_data_->release(step);
    record.data_wait_seconds = data_wait_seconds_;
    record.seconds = data_wait_seconds_ + std::chrono::duration<double>(Clock::now() - begin).count();
    record.wait_seconds = training_->wait_seconds();
    times_.set(rank_, record.seconds, record.wait_seconds, record.data_wait_seconds);
    const double count = reports.at("count");
    record.loss = reports.at("loss") / count;
    record.gradient_norm = reports.at("grad_norm");
    record.tokens_per_second = count / record.seconds;
    record.memory.arena_bytes = arena_->peak_bytes();
    if (leads()) {
      const Compiled& compiled = trainer_.programs_.training;
      record.group_norms = read_group_norms(*training_, compiled.norm_groups, reports, scaler_.factor(), replicas_);
      record.metrics = describe_metrics(compiled.metrics, read_metric_sums(*training_), count);
    }
    if (count == 0) {
      // The update has left out this step, as every step whose gradient scale is not finite.
      scaler_.leave_out_step();
      record.skipped = true;
      record.fault = "the loss counts no element of its batch";
    } else if (scaler_.skips(record.gradient_norm)) {
      record.skipped = true;
    } else {
      const std::optional<HealthRecord> bad = health_.judge(record, is_refused(reports));
      if (bad && bad->action != HealthAction::skip) return bad;
      if (bad) {
        scaler_.leave_out_step();
        record.skipped = true;
        record.fault = bad->reason;
        if (leads()) trainer_.observer_.health(*bad);
      }
    }
    report(record);
    return std::nullopt;
  }

  void report(const StepRecord& record) {
    if (!leads()) return;
    trainer_.tokens_per_second_.add(record.tokens_per_second);
    trainer_.step_seconds_.add(record.seconds);
    trainer_.summary_.step = record.step;
    if (!record.skipped) trainer_.summary_.loss = record.loss;
    trainer_.observer_.step(record);
    tells_times_ = trainer_.world_->rank_count() > 1;
    if (!tells_graphs_) return;
    if (const std::optional<GraphUse> use = training_->graph_use()) {
      trainer_.observer_.graphs(*use);
      tells_graphs_ = false;
    }
  }

  void write_checkpoint(std::uint64_t step, bool evaluation_due, bool is_last) {
    recorder_.begin(Activity::saving, step);
    checkpoints_.write(trainer_.state_after(step, scaler_, health_.state(), evaluation_due), is_last);
    written_ = step;
  }

  /// Goes back because of the step after `step`, or ends the run, with a checkpoint of `step` if the bad step changed
  /// nothing. All ranks agree on the numbers that lead here. \return the step to continue after.
  std::uint64_t recover(std::uint64_t step, HealthRecord bad) {
    recorder_.begin(Activity::saving, step);
    static_cast<void>(checkpoints_.finish());
    const auto restore_from = [this](const CheckpointReader* checkpoint) { restore(checkpoint); };
    if (bad.action == HealthAction::rewind)
      bad = trainer_.rewind({rank_, agreement_, health_, restore_from}, step, bad);
    if (leads()) trainer_.observer_.health(bad);
    if (bad.action == HealthAction::rewind) {
      written_ = bad.back_to;
      return bad.back_to;
    }
    // No rank ends the run before the first one has told why.
    agreement_.meet();
    if (trainer_.undoes_bad_steps() && step > trainer_.start_.step && written_ != step) {
      write_checkpoint(step, false, true);
    }
    throw RuntimeError(trainer_.describe_end(bad, checkpoints_.finish()));
  }

  /// A reason to stop ends the evaluation before its next batch. A resumed run then repeats it.
  Decision evaluate(std::uint64_t step) {
    const std::uint64_t batches = trainer_.validation_batches();
    recorder_.begin(Activity::evaluating, step);
    double loss = 0;
    double count = 0;
    std::vector<double> metric_sums;
    double wait_seconds = 0;
    for (std::uint64_t batch = 0; batch < batches; ++batch) {
      const ReadAhead::Outcome outcome = trainer_.validation_data_->wait(evaluated_);
      wait_seconds += outcome.wait_seconds;
      const Decision decision = combine({outcome.failure.has_value(), own_reason()}, step);
      if (decision.data_failed) {
        trainer_.note_data_failure("the evaluation after step " + std::to_string(step), step, outcome.failure);
      }
      if (!decision.goes_on()) return decision;
      const Reports reports = evaluation_->run(evaluated_, 0, *trainer_.validation_data_);
      trainer_.validation_data_->release(evaluated_++);
      loss += reports.at("loss");
      count += reports.at("count");
      if (leads()) add_metric_sums(read_metric_sums(*evaluation_), metric_sums);
    }
    if (!leads()) return {};
    const EvaluationRecord record{
        .step = step,
        .loss = loss / count,
        .tokens = static_cast<std::int64_t>(count),
        .data_wait_seconds = wait_seconds,
        .of_average = trainer_.setup_.configuration.optimizer.average.is_evaluated(),
        .metrics = describe_metrics(trainer_.programs_.evaluation->metrics, metric_sums, count)};
    trainer_.summary_.evaluation_loss = record.loss;
    trainer_.summary_.evaluation_metrics = record.metrics;
    trainer_.observer_.evaluation(record);
    return {};
  }

  /// Makes the peaks of all ranks known to each process. No process ends, and so stops the others, before it.
  void gather_peaks() {
    TrainingSummary& summary = trainer_.summary_;
    const OffloadBytes offload = offload_ ? offload_->peak() : OffloadBytes{};
    const std::array own{arena_->peak_bytes(), offload.host, offload.file};
    std::vector<double> peaks(own.size() * summary.arena_peak_bytes.size());
    std::ranges::copy(own, peaks.begin() + static_cast<std::ptrdiff_t>(own.size() * index()));
    agreement_.largest(peaks);
    if (!speaks()) return;
    const auto peak = [&](std::size_t at) { return static_cast<std::int64_t>(peaks[at]); };
    for (std::size_t rank = 0; rank < summary.arena_peak_bytes.size(); ++rank) {
      summary.arena_peak_bytes[rank] = peak(3 * rank);
      summary.offload_peak[rank] = {peak(3 * rank + 1), peak(3 * rank + 2)};
    }
  }

  Trainer& trainer_;
  int rank_;
  FlightRecorder& recorder_;
  Agreement agreement_;
  RankTimeValues times_;
  Stragglers stragglers_;
  /// True on the first rank between a step and its tell_times(). A step that the run undoes has none.
  bool tells_times_ = false;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<OffloadMemory> offload_;
  std::unique_ptr<Executor> training_;
  std::unique_ptr<Executor> evaluation_;
  LossScaler scaler_;
  HealthRule health_;
  /// Step of the last checkpoint, from which the parameters have not changed if it is the last step.
  std::optional<std::uint64_t> written_;
  bool tells_graphs_;
  /// How many replicas train apart.
  int replicas_ = trainer_.programs_.training.mesh.size(
      in_mesh_order(trainer_.programs_.training.mesh, trainer_.setup_.stack.unsynchronized));
  RankCheckpoints checkpoints_;
  /// Seconds that the coming step has waited for its data.
  double data_wait_seconds_ = 0;
  /// Batches evaluated so far, in all evaluations.
  std::uint64_t evaluated_ = 0;
};

bool has_first_rank(const World& world) {
  const std::vector<int> ranks = world.local_ranks();
  return contains(ranks, 0);
}

TrainingSummary Trainer::run() {
  {
    const RunSection& run = setup_.configuration.run;
    // A checkpoint that is being written is not interrupted.
    const auto asked_to_stop = [&] { return checkpoint_share_->writers == 0 && observer_.asked_to_stop(); };
    RunDiagnosis diagnosis(*world_, {run.watchdog, record_folder_, asked_to_stop, run.stop_grace},
                           [&](const std::string& text) { observer_.hangs(text); });
    const auto body = [&](Device& device, Communicator& communicator) {
      FlightRecorder& recorder = diagnosis.recorders().of(communicator.rank());
      recorder.begin(Activity::preparing);
      Rank(*this, device, communicator, recorder).run();
    };
    const auto failed = [&](int rank, const std::exception_ptr& error) { diagnosis.failed(rank, error); };
    run_rank_threads(*world_, [&](int rank) { return setup_.make_device(rank, *world_); }, body,
                     {kPatience, [&](const std::string& report) { observer_.stuck(report); }},
                     {&diagnosis.recorders(), failed, [&](StopRanks stop) { diagnosis.set_stop(std::move(stop)); }});
  }
  training_data_.reset();
  validation_data_.reset();
  if (data_failure_) {
    const bool is_saved = data_failure_->checkpoint && !checkpoint_failure_;
    throw RuntimeError(
        "the data of " + data_failure_->place + " cannot be read: " + data_failure_->reason +
        (is_saved ? "; the run ends with a checkpoint of step " + std::to_string(*data_failure_->checkpoint) : "") +
        (checkpoint_failure_ ? "; " + *checkpoint_failure_ : ""));
  }
  if (checkpoint_failure_) throw RuntimeError(*checkpoint_failure_ + "; " + describe_newest(store_.directory()));
  summary_.median_tokens_per_second = tokens_per_second_.value();
  summary_.median_step_seconds = step_seconds_.value();
  summary_.peak_resident_bytes = peak_resident_bytes();
  return summary_;
}

}  // namespace strata::host

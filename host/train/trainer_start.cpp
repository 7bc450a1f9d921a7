// What a Trainer plans before its ranks train: programs, checkpoints, the start, the readers of data.

#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "huggingface/initial_values.hpp"
#include "setup/joined_world.hpp"
#include "strata/error.hpp"
#include "train/resume.hpp"
#include "train/trainer.hpp"
#include "train/training_programs.hpp"

namespace strata::host {

Trainer::Trainer(const RunSetup& setup, const DataSource& source, CheckpointSettings checkpoints,
                 std::vector<std::filesystem::path> candidates, TrainingObserver& observer,
                 std::unique_ptr<World> world)
    : setup_(setup),
      source_(source),
      choice_(std::make_unique<ResumeChoice>(std::move(candidates))),
      observer_(observer),
      world_(world ? std::move(world) : setup.make_world()),
      checkpoints_(std::move(checkpoints)),
      store_(checkpoints_.directory, checkpoints_.keep, *checkpoints_.disk),
      schedule_(learning_rate_schedule(setup.configuration)),
      weight_decay_(weight_decay_schedule(setup.configuration)) {
  before_connecting(world_, [this] { prepare(); });
}

void Trainer::prepare() {
  require_initial_values(setup_, source_.sizes());
  {
    // This device only answers questions about kernels. Every rank makes its own on its own thread.
    const std::unique_ptr<Device> device = setup_.make_device(world_->local_ranks().front(), *world_);
    programs_ = compile_training(setup_, setup_.sizes(source_.sizes()), device.get(),
                                 static_cast<std::int64_t>(validation_batches()));
    if (const auto fault = find_fault(programs_, setup_.limits(*world_), setup_.memory_bytes(*device))) {
      throw ConfigurationError(*fault);
    }
    remarks_ = with_places(setup_.configuration, [&] { return find_remarks(programs_, *device); });
    plan_checkpoints(*device);
  }
  world_ = joined_world(std::move(world_), [&] {
    RankTerms terms = data_terms(source_);
    terms.push_back(program_term("training", programs_.training));
    if (programs_.evaluation) terms.push_back(program_term("evaluation", *programs_.evaluation));
    return terms;
  });
  data_ = {source_.fingerprint(), source_.description(), source_.sizes()};
  summary_.planned_peak_bytes = programs_.planned_peak_bytes();
  summary_.arena_peak_bytes.resize(summary_.planned_peak_bytes.size());
  summary_.planned_offload = programs_.planned_offload();
  summary_.offload_peak.resize(summary_.planned_offload.size());
  if (setup_.initial) checkpoint_share_->base = setup_.initial->directory();
  make_readers();
  if (checkpoints_.tokenizer) {
    model_files_ = checkpoints_.tokenizer;
  } else if (setup_.initial) {
    model_files_ = std::make_shared<const ModelFiles>(setup_.initial->model_files());
  }
}

void Trainer::plan_checkpoints(const Device& device) {
  const bool background = copies_whole(checkpoints_.mode, checkpoints_.every);
  checkpoint_plan_ = CheckpointPlan(rank_programs(programs_.training));
  checkpoint_share_.reset(
      new CheckpointShare{.store = store_,
                          .plan = checkpoint_plan_,
                          .copies = planned_copies(checkpoint_plan_, background),
                          .background = background,
                          .written = [this](const CheckpointRecord& record) { observer_.checkpoint(record); },
                          .warning = [this](const std::string& text) { observer_.warning(text); }});
  summary_.planned_checkpoint_bytes = planned_copy_bytes(checkpoint_share_->copies);
  if (const auto fault = find_copy_fault(programs_.planned_peak_bytes(), summary_.planned_checkpoint_bytes, device,
                                         setup_.memory_bytes(device))) {
    throw ConfigurationError(*fault);
  }
}

void Trainer::prepare_store() const {
  const auto steps = static_cast<std::uint64_t>(setup_.configuration.run.last_step());
  const std::uint64_t left = steps > start_.step ? steps - start_.step : 0;
  const std::uint64_t count = checkpoints_.every > 0 ? left / static_cast<std::uint64_t>(checkpoints_.every) + 1 : 1;
  const bool has_base = resume_ != nullptr && has_frozen_files(resume_->manifest(), checkpoint_plan_);
  store_.prepare(checkpoint_bytes(checkpoint_plan_),
                 {.count = count,
                  .first_step = start_.step,
                  .shared_bytes = frozen_bytes(checkpoint_plan_),
                  .base = has_base ? resume_->directory() : std::filesystem::path{}});
}

void Trainer::begin(const CheckpointReader* checkpoint) {
  const std::lock_guard lock(mutex_);
  const std::string path = checkpoint == nullptr ? "" : checkpoint->directory().string();
  if (begun_ == path) return;
  begun_ = path;
  resume_ = checkpoint;
  if (resume_ == nullptr) return;
  require_same_run(setup_, source_, *resume_);
  dropped_ = find_dropped(*resume_, checkpoint_plan_);
  if (!checkpoints_.tokenizer) model_files_ = std::make_shared<const ModelFiles>(resume_->model_files());
  checkpoint_share_->base = resume_->directory();
  start_ = {resume_->run().step, resume_->run().samples, resume_->run().evaluation_due};
  summary_.step = start_.step;
}

ReadAheadSettings Trainer::reading_from(std::uint64_t step) const {
  return {.first_step = step,
          .ranks = static_cast<int>(world_->local_ranks().size()),
          .threads = setup_.data_threads(*world_)};
}

void Trainer::start_reading() {
  if (start_.step < static_cast<std::uint64_t>(setup_.configuration.run.last_step())) {
    training_data_ = std::make_unique<ReadAhead>(*training_reader_, reading_from(start_.step));
  }
  if (validation_reader_) {
    validation_data_ = std::make_unique<ReadAhead>(*validation_reader_, reading_from(0));
  }
}

void Trainer::make_readers() {
  const std::vector<int> ranks = world_->local_ranks();
  const std::uint64_t seed = setup_.seed();
  const std::int64_t batch = setup_.configuration.batch.global;
  const SampleOrder order(seed, source_.samples(DataSplit::training));
  training_reader_ = std::make_unique<BatchReader>(
      source_, programs_.training.graph.sizes, batch_needs(programs_.training, ranks, source_.inputs()),
      [this, order, seed](std::uint64_t step, std::int64_t sample) -> std::optional<SampleKey> {
        const SamplePlace place = order(samples_before(step) + static_cast<std::uint64_t>(sample));
        return SampleKey{DataSplit::training, place.epoch, seed, place.index};
      });
  if (!programs_.evaluation) return;
  validation_reader_ = std::make_unique<BatchReader>(
      source_, programs_.evaluation->graph.sizes, batch_needs(*programs_.evaluation, ranks, source_.inputs()),
      [this, batch, seed](std::uint64_t step, std::int64_t sample) -> std::optional<SampleKey> {
        // Batches are counted over all evaluations.
        const std::int64_t index = static_cast<std::int64_t>(step % validation_batches()) * batch + sample;
        if (index >= source_.samples(DataSplit::validation)) return std::nullopt;
        return SampleKey{DataSplit::validation, 0, seed, index};
      });
}

void Trainer::note_data_failure(const std::string& place, std::optional<std::uint64_t> checkpoint,
                                const std::optional<std::string>& reason) {
  const std::lock_guard lock(mutex_);
  if (!data_failure_) data_failure_ = DataFailure{.place = place, .checkpoint = checkpoint};
  if (reason) data_failure_->reason = *reason;
}

std::uint64_t Trainer::samples_before(std::uint64_t step) const {
  return start_.samples + (step - start_.step) * static_cast<std::uint64_t>(setup_.configuration.batch.global);
}

std::uint64_t Trainer::validation_batches() const {
  const RunConfiguration& configuration = setup_.configuration;
  const std::int64_t batch = configuration.batch.global;
  const std::int64_t all = (source_.samples(DataSplit::validation) + batch - 1) / batch;
  const std::int64_t limit = configuration.run.eval_batches;
  return static_cast<std::uint64_t>(limit > 0 ? std::min(limit, all) : all);
}

bool Trainer::undoes_bad_steps() const {
  // Averages and the exchange of replicas that train apart go on in a refused step.
  return guard_for(setup_.configuration.health) != StepGuard::none &&
         setup_.configuration.optimizer.average.decay == 0 && setup_.stack.unsynchronized.empty();
}

RunState Trainer::state_after(std::uint64_t step, const LossScaler& scaler, const HealthState& health,
                              bool evaluation_due) const {
  RunState state{.step = step,
                 .seed = setup_.seed(),
                 .samples = samples_before(step),
                 .configuration = to_toml(setup_.configuration),
                 .vocabulary = source_.vocabulary(),
                 .data = data_,
                 .identity = checkpoints_.identity,
                 .evaluation_due = evaluation_due};
  if (scaler.is_active() || scaler.state().skipped_steps > 0) state.loss_scaler = scaler.state();
  if (health != HealthState{}) state.health = health;
  if (resume_ != nullptr) state.imported_types = resume_->run().imported_types;
  if (setup_.initial && state.imported_types.empty()) state.imported_types = setup_.initial->run().imported_types;
  if (model_files_ && !model_files_->empty()) state.model_files = model_files_;
  return state;
}

}  // namespace strata::host

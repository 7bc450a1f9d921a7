#include "train/run/trainer.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "runtime/executor.hpp"
#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "strata/error.hpp"
#include "train/run/agreement.hpp"
#include "train/run/process_memory.hpp"
#include "train/run/remarks.hpp"

namespace strata::host {
namespace {

void require_finite(double value, const char* what, std::uint64_t step) {
  if (std::isfinite(value)) return;
  throw RuntimeError("step " + std::to_string(step) + ": the " + what + " is " + std::to_string(value) +
                     "; training stops, and the last checkpoint is kept. A lower learning rate, a longer warm-up or "
                     "clipping may help");
}

void require_same_vocabulary(const Vocabulary& stored, const Vocabulary& data, const std::filesystem::path& from) {
  if (stored == data) return;
  throw ConfigurationError("checkpoint '" + from.string() +
                           "' was trained on another vocabulary than the one that data.path and data.tokenizer give");
}

void require_known_tokens(const RunConfiguration& configuration, const Corpus& corpus, std::int64_t vocab) {
  try {
    corpus.require_tokens_below(vocab);
  } catch (const ConfigurationError& error) {
    throw configuration.error("data.path", error.what());
  }
}

}  // namespace

/// The work of one rank's thread.
class Trainer::Rank {
 public:
  Rank(Trainer& trainer, Device& device, Communicator& communicator)
      : trainer_(trainer),
        rank_(communicator.rank()),
        agreement_(communicator, device),
        arena_(std::make_shared<Arena>(device, trainer.summary_.planned_peak_bytes.at(index()))),
        offload_(make_offload_memory(trainer.summary_.planned_offload.at(index()), trainer.offload_directory(rank_))),
        training_(executor(trainer.programs_.training, device, communicator)),
        scaler_(trainer.programs_.training),
        tells_graphs_(!device.is_host_memory()) {
    if (trainer.programs_.evaluation) evaluation_ = executor(*trainer.programs_.evaluation, device, communicator);
    if (trainer.resume_ != nullptr) {
      if (const auto& scaler = trainer.resume_->run().loss_scaler) scaler_.restore(*scaler);
      trainer.resume_->restore(training_->program(), rank_,
                               [&](const BufferSlice& slice, const void* host) { training_->write(slice, host); });
      initialize_constants(*training_, seed());
    } else {
      initialize(*training_, seed());
    }
  }

  void run() {
    const RunSection& settings = trainer_.setup_.configuration.run;
    const auto steps = static_cast<std::uint64_t>(settings.steps);
    bool stopped = false;
    for (std::uint64_t step = trainer_.start_.step; step < steps && !stopped;) {
      train(step++);
      stopped = agreement_.largest(leads() && trainer_.observer_.stop() ? 1 : 0) > 0;
      const bool ends = stopped || step == steps;
      if (is_due(step, settings.eval_every) || (ends && !stopped && settings.eval_every > 0)) evaluate(step);
      if (is_due(step, trainer_.checkpoints_.every) || ends) write_checkpoint(step);
    }
    trainer_.summary_.arena_peak_bytes.at(index()) = arena_->peak_bytes();
    if (offload_) trainer_.summary_.offload_peak.at(index()) = offload_->peak();
    if (trainer_.world_->local_ranks().size() < trainer_.summary_.arena_peak_bytes.size()) gather_peaks();
  }

 private:
  [[nodiscard]] std::size_t index() const { return static_cast<std::size_t>(rank_); }
  [[nodiscard]] bool leads() const { return rank_ == 0; }
  [[nodiscard]] std::uint64_t seed() const {
    return static_cast<std::uint64_t>(trainer_.setup_.configuration.run.seed);
  }
  [[nodiscard]] static bool is_due(std::uint64_t step, std::int64_t every) {
    return every > 0 && step % static_cast<std::uint64_t>(every) == 0;
  }

  std::unique_ptr<Executor> executor(const Compiled& compiled, Device& device, Communicator& communicator) const {
    return std::make_unique<Executor>(compiled.program(rank_), compiled.plan(rank_), rank_, seed(), device,
                                      communicator, arena_, offload_, !compiled.has_transfers());
  }

  void train(std::uint64_t step) {
    using Clock = std::chrono::steady_clock;
    StepRecord record;
    record.step = step + 1;
    record.learning_rate = trainer_.schedule_(step);
    if (scaler_.is_active()) record.loss_scale = scaler_.state().scale;
    const Clock::time_point begin = Clock::now();
    const Reports reports = training_->run({.step = step,
                                            .learning_rate = record.learning_rate,
                                            .loss_scale = scaler_.factor(),
                                            .skipped_steps = scaler_.state().skipped_steps},
                                           *trainer_.batches_);
    record.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    record.wait_seconds = training_->wait_seconds();
    const double tokens = reports.at("count");
    record.loss = reports.at("loss") / tokens;
    record.gradient_norm = reports.at("grad_norm");
    record.tokens_per_second = tokens / record.seconds;
    record.skipped = scaler_.skips(record.gradient_norm);
    if (!record.skipped) {
      require_finite(record.loss, "loss", record.step);
      require_finite(record.gradient_norm, "gradient norm", record.step);
    }
    if (!leads()) return;
    trainer_.tokens_per_second_.push_back(record.tokens_per_second);
    trainer_.summary_.step = record.step;
    if (!record.skipped) trainer_.summary_.loss = record.loss;
    trainer_.observer_.step(record);
    if (!tells_graphs_) return;
    if (const std::optional<GraphUse> use = training_->graph_use()) {
      trainer_.observer_.graphs(*use);
      tells_graphs_ = false;
    }
  }

  void evaluate(std::uint64_t step) {
    const std::int64_t limit = trainer_.setup_.configuration.run.eval_batches;
    const std::int64_t all = trainer_.validation_->batches();
    const std::int64_t batches = limit > 0 ? std::min(limit, all) : all;
    double loss = 0;
    double tokens = 0;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      const Reports reports = evaluation_->run(static_cast<std::uint64_t>(batch), 0, *trainer_.validation_);
      loss += reports.at("loss");
      tokens += reports.at("count");
    }
    if (!leads()) return;
    trainer_.summary_.evaluation_loss = loss / tokens;
    trainer_.observer_.evaluation({step, loss / tokens, static_cast<std::int64_t>(tokens)});
  }

  /// Sends the peaks of ranks in other processes to the first rank.
  void gather_peaks() {
    TrainingSummary& summary = trainer_.summary_;
    const auto of = [&](std::size_t rank, std::int64_t own) {
      return static_cast<std::int64_t>(agreement_.largest(rank == index() ? static_cast<double>(own) : 0));
    };
    const std::int64_t arena = arena_->peak_bytes();
    const OffloadBytes offload = offload_ ? offload_->peak() : OffloadBytes{};
    for (std::size_t rank = 0; rank < summary.arena_peak_bytes.size(); ++rank) {
      const std::int64_t peak = of(rank, arena);
      const OffloadBytes outside{of(rank, offload.host), of(rank, offload.file)};
      if (!leads()) continue;
      summary.arena_peak_bytes[rank] = peak;
      summary.offload_peak[rank] = outside;
    }
  }

  void write_checkpoint(std::uint64_t step) {
    const double tag = agreement_.largest(leads() ? static_cast<double>(::getpid()) : 0);
    CheckpointWriter writer(trainer_.store_, trainer_.checkpoint_plan_, trainer_.state_after(step, scaler_),
                            std::to_string(static_cast<std::int64_t>(tag)));
    if (leads()) writer.begin();
    agreement_.meet();
    writer.write_rank(rank_, [&](const BufferSlice& slice, void* host) { training_->read(slice, host); });
    agreement_.meet();
    if (leads()) trainer_.observer_.checkpoint(writer.commit());
  }

  Trainer& trainer_;
  int rank_;
  Agreement agreement_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<OffloadMemory> offload_;
  std::unique_ptr<Executor> training_;
  std::unique_ptr<Executor> evaluation_;
  LossScaler scaler_;
  bool tells_graphs_;
};

bool has_first_rank(const World& world) {
  const std::vector<int> ranks = world.local_ranks();
  return std::find(ranks.begin(), ranks.end(), 0) != ranks.end();
}

Trainer::Trainer(const RunSetup& setup, const Corpus& corpus, CheckpointSettings checkpoints,
                 const CheckpointReader* resume, TrainingObserver& observer, std::unique_ptr<World> world)
    : setup_(setup),
      corpus_(corpus),
      resume_(resume),
      observer_(observer),
      world_(world ? std::move(world) : setup.make_world()),
      checkpoints_(std::move(checkpoints)),
      store_(checkpoints_.directory, checkpoints_.keep),
      schedule_(learning_rate_schedule(setup.configuration)) {
  {
    // This device only answers questions about kernels. Every rank makes its own on its own thread.
    const std::unique_ptr<Device> device = setup.make_device(world_->local_ranks().front(), *world_);
    programs_ = compile_training(setup, setup.vocab(corpus.vocabulary()), device.get());
    if (const auto fault = find_fault(programs_, setup.limits(*world_), setup.memory_bytes(*device))) {
      throw ConfigurationError(*fault);
    }
    remarks_ = with_places(setup.configuration, [&] { return find_remarks(programs_, *device); });
  }
  require_known_tokens(setup.configuration, corpus, programs_.training.graph.sizes.at("vocab"));
  checkpoint_plan_ = plan_checkpoint(rank_programs(programs_.training));
  summary_.planned_peak_bytes = programs_.planned_peak_bytes();
  summary_.arena_peak_bytes.resize(summary_.planned_peak_bytes.size());
  summary_.planned_offload = programs_.planned_offload();
  summary_.offload_peak.resize(summary_.planned_offload.size());
  if (resume != nullptr) {
    require_same_vocabulary(resume->run().vocabulary, corpus.vocabulary(), resume->directory());
    start_ = {resume->run().step, resume->run().samples};
    summary_.step = start_.step;
  }
  const std::int64_t context = setup.context;
  const std::int64_t batch = setup.configuration.batch.global;
  const EpochSampler sampler(static_cast<std::uint64_t>(setup.configuration.run.seed), corpus.training().size, context);
  batches_ = std::make_unique<TrainingBatches>(corpus, sampler, batch, start_);
  validation_ = std::make_unique<ValidationBatches>(corpus, context, batch);
  if (has_first_rank(*world_)) store_.prepare(checkpoint_bytes(checkpoint_plan_));
}

std::filesystem::path Trainer::offload_directory(int rank) const {
  const std::string& chosen = programs_.training.program(rank).offload_directory;
  return chosen.empty() ? setup_.configuration.run.output : chosen;
}

RunState Trainer::state_after(std::uint64_t step, const LossScaler& scaler) const {
  RunState state{step, static_cast<std::uint64_t>(setup_.configuration.run.seed), batches_->samples_before(step),
                 to_toml(setup_.configuration), corpus_.vocabulary()};
  if (scaler.is_active() || scaler.state().skipped_steps > 0) state.loss_scaler = scaler.state();
  return state;
}

TrainingSummary Trainer::run() {
  run_rank_threads(
      *world_, [&](int rank) { return setup_.make_device(rank, *world_); },
      [&](Device& device, Communicator& communicator) { Rank(*this, device, communicator).run(); });
  summary_.median_tokens_per_second = steady_median(tokens_per_second_);
  summary_.peak_resident_bytes = peak_resident_bytes();
  return summary_;
}

}  // namespace strata::host

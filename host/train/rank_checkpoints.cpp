#include "train/rank_checkpoints.hpp"

#include <unistd.h>

#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Longest time that a rank's thread waits before it asks the others again.
constexpr std::chrono::milliseconds kPollInterval{5};

CopyRing make_ring(const CheckpointShare& share, int rank, RankFile file, Device& device) {
  const CopyBytes& copy = share.copies.at(static_cast<std::size_t>(rank));
  const std::int64_t bytes = file == RankFile::frozen ? copy.frozen : copy.changing;
  std::shared_ptr<void> memory;
  try {
    if (bytes > 0) memory = device.allocate_host(bytes);
  } catch (const RuntimeError& error) {
    throw RuntimeError("rank " + std::to_string(rank) + " has no " + std::to_string(bytes) +
                       " bytes of host memory for the copy of a checkpoint: " + error.what() +
                       "; run.checkpoint_mode = \"foreground\" needs little");
  }
  return {std::move(memory), bytes, rank_pieces(share.plan, rank, file)};
}

}  // namespace

RankCheckpoints::RankCheckpoints(CheckpointShare& share, int rank, bool reports, Device& device, Agreement& agreement,
                                 ReadSlice read)
    : share_(share),
      rank_(rank),
      reports_(reports),
      agreement_(agreement),
      read_(std::move(read)),
      tag_(std::to_string(static_cast<std::int64_t>(agreement.largest(rank == 0 ? ::getpid() : 0)))),
      ring_(make_ring(share, rank, RankFile::changing, device)),
      frozen_ring_(make_ring(share, rank, RankFile::frozen, device)) {}

RankCheckpoints::~RankCheckpoints() {
  ring_.stop_filling();
  frozen_ring_.stop_filling();
}

void RankCheckpoints::write(RunState state, bool is_last) {
  const Clock::time_point asked = Clock::now();
  wait();
  begin_ = Clock::now();
  is_last_ = is_last;
  last_failure_.reset();
  record_ = {.step = state.step,
             .path = share_.store.path_of(state.step),
             .bytes = checkpoint_bytes(share_.plan),
             .wait_seconds = std::chrono::duration<double>(begin_ - asked).count()};
  writer_ = std::make_unique<CheckpointWriter>(share_.store, share_.plan, std::move(state), tag_,
                                               base_.empty() ? share_.base : base_);
  ring_.restart();
  frozen_ring_.restart();
  wants_frozen_ = false;
  begin(Phase::writing, [this] { write_files(); });
  // Trained parameters may change when this call returns. In the background there is room for all of them.
  ring_.fill(read_);
  if (!share_.background) return wait();
  record_.pause_seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
}

void RankCheckpoints::write_files() {
  try {
    if (leads()) writer_->begin();
    writer_->write_file(rank_, RankFile::changing, ring_.pieces(),
                        [this](std::size_t most) { return ring_.take(most); });
    if (frozen_ring_.pieces().empty() || writer_->share_frozen(rank_)) return;
    wants_frozen_ = true;
    writer_->write_file(rank_, RankFile::frozen, frozen_ring_.pieces(),
                        [this](std::size_t most) { return frozen_ring_.take(most); });
  } catch (...) {
    ring_.stop_taking();
    frozen_ring_.stop_taking();
    throw;
  }
}

void RankCheckpoints::fill() {
  ring_.fill(read_);
  if (wants_frozen_) frozen_ring_.fill(read_);
}

void RankCheckpoints::poll() {
  if (phase_ == Phase::idle) return;
  if (phase_ == Phase::writing) fill();
  if (agreement_.largest(is_done() ? 0 : 1) == 0) end_phase();
}

std::optional<std::string> RankCheckpoints::finish() {
  wait();
  return last_failure_;
}

void RankCheckpoints::wait() {
  while (phase_ != Phase::idle) {
    poll();
    if (!is_done()) task_->wait_for(kPollInterval);
  }
}

void RankCheckpoints::begin(Phase phase, std::function<void()> work) {
  phase_ = phase;
  task_.reset();
  if (!work) return;
  task_ = std::make_unique<BackgroundTask>([&writers = share_.writers, work = std::move(work)] {
    ++writers;
    const std::shared_ptr<void> leave(nullptr, [&](void*) { --writers; });
    work();
  });
}

void RankCheckpoints::end_phase() {
  const std::optional<std::string> failure = task_ ? task_->failure() : std::nullopt;
  if (failure) {
    const std::lock_guard lock(share_.mutex);
    if (!share_.failure) share_.failure = failure;
  }
  if (task_ && phase_ != Phase::abandoning) record_.write_seconds += task_->seconds();
  if (phase_ == Phase::abandoning) return conclude(true);
  const std::function<void()> none;
  if (agreement_.largest(failure ? 1 : 0) > 0) {
    begin(Phase::abandoning, leads() ? [this] { writer_->abandon(); } : none);
  } else if (phase_ == Phase::writing) {
    begin(Phase::committing, leads() ? [this] { (void)writer_->commit(); } : none);
  } else {
    conclude(false);
  }
}

void RankCheckpoints::conclude(bool failed) {
  begin(Phase::idle, {});
  if (!share_.background) record_.pause_seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  if (!failed) {
    base_ = record_.path;
    if (leads() && writer_->remark()) share_.warning(*writer_->remark());
    if (leads()) share_.written(record_);
    return;
  }
  last_failure_ = "the checkpoint of step " + std::to_string(record_.step) + " could not be written: ";
  if (!reports_) return;
  std::optional<std::string> reason;
  {
    const std::lock_guard lock(share_.mutex);
    reason = std::exchange(share_.failure, std::nullopt);
  }
  *last_failure_ += reason.value_or("another process reports the reason");
  if (!is_last_ && (leads() || reason)) {
    share_.warning(*last_failure_ + "; training goes on, and the checkpoints before it are kept");
  }
}

}  // namespace strata::host

// How a run goes back to a checkpoint: the checkpoints that it may go back to, and the reading of data from there.

#include <algorithm>
#include <memory>
#include <utility>

#include "checkpoint/checkpoint_store.hpp"
#include "train/trainer.hpp"

namespace strata::host {

bool Trainer::offer_earlier(std::uint64_t step, const std::optional<std::uint64_t>& rewound_to) {
  std::vector<std::filesystem::path> candidates = store_.paths_up_to(step);
  const bool has_none = candidates.empty();
  if (rewound_to) candidates = *rewound_to > 0 ? store_.paths_up_to(*rewound_to - 1) : decltype(candidates){};
  // The newest comes first. Those that a stop of the run added come last, so that an interrupted run goes back as an
  // uninterrupted one does.
  std::ranges::reverse(candidates);
  const auto every = static_cast<std::uint64_t>(std::max<std::int64_t>(1, checkpoints_.every));
  std::stable_partition(candidates.begin(), candidates.end(),
                        [every](const auto& path) { return step_of_checkpoint(path).value_or(1) % every == 0; });
  // The run has written none yet, so it goes back to where it started.
  const bool at_start = has_none && !rewound_to;
  if (at_start && resume_ != nullptr) candidates.push_back(resume_->directory());
  const bool can = at_start || !candidates.empty();
  if (can) choice_ = std::make_unique<ResumeChoice>(std::move(candidates));
  return can;
}

void Trainer::go_back(const CheckpointReader* checkpoint, std::uint64_t samples) {
  // The threads of the old batches read start_.
  training_data_.reset();
  resume_ = checkpoint;
  start_ = {checkpoint == nullptr ? 0 : checkpoint->run().step, samples, false};
  training_data_ = std::make_unique<ReadAhead>(*training_reader_, reading_from(start_.step));
}

HealthRecord Trainer::rewind(const RankParts& rank, std::uint64_t step, HealthRecord bad) {
  const bool speaks = rank.rank == world_->local_ranks().front();
  bad.left_out.end = samples_before(step + 1);
  // The candidates of the process with the first rank count.
  const bool can = speaks && offer_earlier(step, rank.health.state().rewound_to);
  if (rank.agreement.largest(rank.rank == 0 && can ? 1 : 0) == 0) {
    bad.action = HealthAction::stop;
    bad.reason += ", and there is no earlier checkpoint to go back to";
    return bad;
  }
  const CheckpointReader* target = nullptr;
  choice_->settle(rank.agreement, rank.rank, [&](const CheckpointReader* checkpoint) {
    target = checkpoint;
    rank.restore(checkpoint);
  });
  rank.agreement.meet();
  if (rank.rank == 0) {
    for (const std::string& skipped : choice_->skipped()) observer_.warning(skipped);
  }
  if (speaks) go_back(target, bad.left_out.end);
  rank.agreement.meet();
  bad.back_to = start_.step;
  HealthState before;
  if (target != nullptr) {
    bad.left_out.begin = target->run().samples;
    bad.checkpoint = target->directory();
    before = target->run().health.value_or(before);
  }
  rank.health.go_back(std::move(before), bad.back_to, bad.left_out);
  bad.rewinds = rank.health.state().rewinds;
  return bad;
}

std::string Trainer::describe_end(const HealthRecord& bad, const std::optional<std::string>& failure) const {
  return "step " + std::to_string(bad.step) + ": " + bad.reason + "; training stops" +
         (failure ? "; " + *failure : "") + "; " + describe_newest(store_.directory()) +
         ". A lower learning rate, a longer warm-up, clipping or the rules of [health] may help";
}

}  // namespace strata::host

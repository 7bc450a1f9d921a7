#include "diagnosis/stop_grace.hpp"

#include <algorithm>

namespace strata::host {

bool StopGrace::look(double now, bool is_asked) {
  std::uint64_t moves = 0;
  bool runs = false;
  bool saves = false;
  bool computes = false;
  for (const auto& [rank, recorder] : recorders_.all()) {
    const FlightRecorder::Movement movement = recorder->movement();
    moves += movement.moves;
    runs = runs || !movement.is_over;
    saves = saves || movement.activity == Activity::saving;
    computes = computes || movement.activity == Activity::training || movement.activity == Activity::evaluating;
  }
  if (!moved_at_ || moves != moves_) {
    if (moved_at_ && computes_) longest_ = std::max(longest_, now - *moved_at_);
    moves_ = moves;
    moved_at_ = now;
  }
  computes_ = computes;
  if (!is_asked) asked_at_.reset();
  if (is_asked && !asked_at_) asked_at_ = now;
  if (seconds_ == 0 || !asked_at_ || !runs || saves) return false;
  return now - std::max(*moved_at_, *asked_at_) >= patience();
}

bool StopGrace::may_go_on(const FlightRecord& record) const {
  if (!record.error.empty() || record.activity == Activity::ended) return false;
  return record.activity == Activity::saving || record.seconds < patience();
}

double StopGrace::patience() const { return std::max(seconds_, 2 * longest_); }

}  // namespace strata::host

#include "train/resume_choice.hpp"

#include "checkpoint/damaged_checkpoint.hpp"
#include "strata/error.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

void ResumeChoice::settle(Agreement& agreement, int rank, const std::function<void(const CheckpointReader*)>& begin) {
  const bool leads = rank == 0;
  // True if some rank has a failure, which the first rank then notes.
  const auto skips = [&](const std::string& failure) {
    const auto failed = static_cast<int>(agreement.largest(failure.empty() ? 0 : rank + 1)) - 1;
    if (failed < 0) return false;
    const std::string reason = agreement.text(failed == rank ? failure : "");
    if (leads) skipped_.push_back(reason);
    return true;
  };
  while (true) {
    const std::string path = agreement.text(leads ? offer() : "");
    if (path.empty()) return begin(nullptr);
    // No rank begins with a checkpoint that another process cannot open.
    if (skips(open(path))) continue;
    std::string failure;
    try {
      begin(reader_.get());
    } catch (const DamagedCheckpoint& error) {
      failure = error.what();
    }
    if (!skips(failure)) return;
  }
}

std::string ResumeChoice::offer() const {
  if (candidates_.empty()) return "";
  if (skipped_.size() < candidates_.size()) return candidates_[skipped_.size()].string();
  if (skipped_.size() == 1) throw RuntimeError(skipped_.front());
  throw RuntimeError("none of " + std::to_string(skipped_.size()) + " checkpoints is whole: " + join(skipped_, "; "));
}

std::string ResumeChoice::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (tried_ == path) return failure_;
  tried_ = path;
  failure_.clear();
  reader_.reset();
  try {
    reader_ = std::make_unique<CheckpointReader>(path);
  } catch (const Error& error) {
    failure_ = error.what();
  }
  return failure_;
}

}  // namespace strata::host

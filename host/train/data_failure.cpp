#include "train/data_failure.hpp"

namespace strata::host {

void DataFailure::set(const std::string& place, std::optional<std::uint64_t> checkpoint,
                      const std::optional<std::string>& reason) {
  const std::lock_guard lock(mutex_);
  place_ = place;
  checkpoint_ = checkpoint;
  if (reason) reason_ = reason;
}

std::optional<std::string> DataFailure::message(bool has_checkpoint) const {
  const std::lock_guard lock(mutex_);
  if (place_.empty()) return std::nullopt;
  return "the data of " + place_ + " cannot be read: " + reason_.value_or("another process reports the reason") +
         (checkpoint_ && has_checkpoint ? "; the run ends with a checkpoint of step " + std::to_string(*checkpoint_)
                                        : "");
}

}  // namespace strata::host

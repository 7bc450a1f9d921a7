#include "store.hpp"

#include <exception>
#include <utility>

#include "strata/error.hpp"

namespace strata::rendezvous {

Store::~Store() = default;

std::string leaving_text(int rank) {
  const std::string text = "rank " + std::to_string(rank) + " left before it connected";
  return std::current_exception() ? text + ": " + current_exception_text() : text;
}

void Board::put(const std::string& key, const std::string& value, int readers) {
  if (readers == 0) return;
  {
    const std::lock_guard lock(mutex_);
    entries_[key] = {value, readers};
    changed_.notify_all();
  }
  tell();
}

std::optional<std::string> Board::take(const std::string& key, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  auto found = entries_.find(key);
  while (found == entries_.end()) {
    if (failure_ || Clock::now() >= deadline) return std::nullopt;
    changed_.wait_until(lock, deadline);
    found = entries_.find(key);
  }
  std::string value = found->second.value;
  if (--found->second.readers == 0) entries_.erase(found);
  return value;
}

void Board::fail(int rank, const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = Failure{rank, reason};
    changed_.notify_all();
  }
  tell();
}

std::optional<Failure> Board::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool Board::is_empty() const {
  const std::lock_guard lock(mutex_);
  return entries_.empty();
}

void Board::set_listener(std::function<void()> listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

void Board::tell() const {
  std::function<void()> listener;
  {
    const std::lock_guard lock(mutex_);
    listener = listener_;
  }
  if (listener) listener();
}

}  // namespace strata::rendezvous

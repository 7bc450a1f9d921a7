#include "link.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace strata::nccl {

using rendezvous::Clock;

Link::Link(std::shared_ptr<NcclLibrary> nccl, std::shared_ptr<rendezvous::Store> store, std::vector<int> ranks,
           int rank, std::string key)
    : nccl_(std::move(nccl)),
      store_(std::move(store)),
      ranks_(std::move(ranks)),
      index_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin())),
      key_(std::move(key)),
      ready_(ranks_.size() == 1) {}

Link::~Link() { abort(); }

bool Link::advance(int blocks) {
  if (ready_) return true;
  if (handle_ == nullptr) {
    std::string id;
    if (index_ == 0) {
      id = nccl_->make_id();
      store_->put(key_, id, size() - 1);
    } else if (auto found = store_->take(key_, Clock::time_point::min())) {
      id = std::move(*found);
    } else {
      return false;
    }
    handle_ = nccl_->begin_communicator(id, size(), index_, blocks);
  }
  ready_ = nccl_->is_ready(handle_);
  return ready_;
}

void Link::begin_close() noexcept {
  if (handle_ == nullptr || !ready_) return abort();
  try {
    nccl_->finalize(handle_);
  } catch (...) {
    // The run is over, so the communicator only needs to be released.
    abort();
  }
}

void Link::close(Clock::time_point deadline) noexcept {
  if (handle_ == nullptr) return;
  try {
    while (!nccl_->is_ready(handle_)) {
      if (Clock::now() >= deadline) return abort();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    nccl_->destroy(handle_);
    handle_ = nullptr;
  } catch (...) {
    abort();
  }
}

void Link::abort() noexcept {
  if (handle_ != nullptr) nccl_->abort(handle_);
  handle_ = nullptr;
  ready_ = false;
}

}  // namespace strata::nccl

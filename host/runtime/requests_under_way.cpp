#include "runtime/requests_under_way.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

namespace strata::host {

bool RequestsUnderWay::Entry::uses(const ByteRange& range) const {
  return std::any_of(ranges.begin(), ranges.end(), [&](const ByteRange& used) { return used.overlaps(range); });
}

void RequestsUnderWay::add(std::unique_ptr<Request> request, bool is_collective, std::vector<ByteRange> ranges) {
  entries_.push_back({std::move(request), is_collective, std::move(ranges)});
}

void RequestsUnderWay::wait(const ByteRange& range) {
  std::size_t collectives_end = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].is_collective && entries_[i].uses(range)) collectives_end = i + 1;
  }
  // Each turn either removes entry i, moving the next one there, or passes it.
  for (std::size_t i = 0; i < entries_.size();) {
    const bool in_order = entries_[i].is_collective && i < collectives_end;
    if (in_order || entries_[i].uses(range)) {
      finish(i);
      if (collectives_end > i) --collectives_end;
    } else {
      ++i;
    }
  }
}

void RequestsUnderWay::wait_for_messages(const ByteRange& range) {
  for (std::size_t i = 0; i < entries_.size();) {
    if (!entries_[i].is_collective && entries_[i].uses(range)) {
      finish(i);
    } else {
      ++i;
    }
  }
}

void RequestsUnderWay::wait_for_all() {
  while (!entries_.empty()) finish(0);
}

void RequestsUnderWay::drain() noexcept {
  while (!entries_.empty()) {
    try {
      finish(0);
    } catch (const std::exception&) {
      // The error that made this necessary is the one to tell.
    }
  }
}

void RequestsUnderWay::finish(std::size_t index) {
  const std::unique_ptr<Request> request = std::move(entries_[index].request);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  const auto begin = std::chrono::steady_clock::now();
  request->wait();
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace strata::host

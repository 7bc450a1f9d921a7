#include "runtime/requests_in_flight.hpp"

#include <algorithm>
#include <chrono>

#include "strata/error.hpp"

namespace strata::host {

bool RequestsInFlight::Entry::uses(const ByteRange& range) const {
  return std::ranges::any_of(ranges, [&](const ByteRange& used) { return used.overlaps(range); });
}

void RequestsInFlight::add(std::unique_ptr<Request> request, bool is_collective, std::vector<ByteRange> ranges) {
  if (request == nullptr) throw RuntimeError("the communicator starts no communication (a null pointer)");
  entries_.push_back({std::move(request), is_collective, std::move(ranges)});
}

void RequestsInFlight::wait(const ByteRange& range) {
  std::size_t collectives_end = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].is_collective && entries_[i].uses(range)) collectives_end = i + 1;
  }
  // Each iteration either removes entry i, which moves the next entry to i, or advances i.
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

void RequestsInFlight::wait_for_all() {
  while (!entries_.empty()) finish(0);
}

void RequestsInFlight::drain() noexcept {
  while (!entries_.empty()) {
    try {
      finish(0);
    } catch (...) {
      // The caller reports the error that made draining necessary.
    }
  }
}

void RequestsInFlight::finish(std::size_t index) {
  const std::unique_ptr<Request> request = std::move(entries_[index].request);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  const auto begin = std::chrono::steady_clock::now();
  request->wait();
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace strata::host

#include "waiting.hpp"

#include <algorithm>

namespace strata::rendezvous {

std::optional<std::string> Waiting::tell(const std::function<std::string()>& what) {
  if (Clock::now() < next()) return std::nullopt;
  const std::string text = "waited " + seconds_text(after_) + " for " + what();
  after_ *= 2;
  heartbeat_.tell(text);
  return text;
}

bool Waiting::await(const Descriptor& socket, bool to_write, Clock::time_point deadline,
                    const std::function<std::string()>& what) {
  while (!await_socket(socket, to_write, std::min(deadline, next()))) {
    if (Clock::now() >= deadline) return false;
    tell(what);
  }
  return true;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (first == 0 ? "" : ", ") + std::to_string(ranks[first]);
    if (last > first) text += (last == first + 1 ? ", " : " to ") + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace strata::rendezvous

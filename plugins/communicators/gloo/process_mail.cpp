#include "process_mail.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "strata/error.hpp"

namespace strata::gloo {
namespace {

constexpr std::size_t kSending = 0;
constexpr std::size_t kReceiving = 1;

}  // namespace

class ProcessMail::Post {
 public:
  Post(Channel& channel, std::uint64_t slot, std::size_t side, std::byte* data, std::size_t bytes)
      : channel(channel), slot(slot), side(side), data(data), bytes(bytes) {}

  Channel& channel;
  const std::uint64_t slot;
  const std::size_t side;
  std::byte* const data;
  const std::size_t bytes;
  /// Guarded by the channel's mutex.
  bool done = false;
};

struct ProcessMail::Channel {
  std::mutex mutex;
  std::condition_variable changed;
  /// By slot, then by side.
  std::map<std::uint64_t, std::array<std::deque<Ticket>, 2>> waiting;
  bool closed = false;
};

ProcessMail::ProcessMail(int first_rank, int ranks) : first_rank_(first_rank), ranks_(ranks) {
  for (int route = 0; route < ranks * ranks; ++route) channels_.push_back(std::make_unique<Channel>());
}

ProcessMail::~ProcessMail() = default;

ProcessMail::Channel& ProcessMail::channel(const Route& route) {
  return *channels_[static_cast<std::size_t>((route.from - first_rank_) * ranks_ + route.to - first_rank_)];
}

ProcessMail::Ticket ProcessMail::send(const Route& route, std::uint64_t slot, const std::byte* data,
                                      std::size_t bytes) {
  // Memory that is only sent is not written.
  return post(route, slot, kSending, const_cast<std::byte*>(data), bytes);
}

ProcessMail::Ticket ProcessMail::receive(const Route& route, std::uint64_t slot, std::byte* data, std::size_t bytes) {
  return post(route, slot, kReceiving, data, bytes);
}

ProcessMail::Ticket ProcessMail::post(const Route& route, std::uint64_t slot, std::size_t side, std::byte* data,
                                      std::size_t bytes) {
  Channel& own = channel(route);
  auto ticket = std::make_shared<Post>(own, slot, side, data, bytes);
  const std::lock_guard lock(own.mutex);
  if (own.closed) return ticket;
  auto& ends = own.waiting[slot];
  std::deque<Ticket>& others = ends[1 - side];
  if (others.empty()) {
    ends[side].push_back(ticket);
    return ticket;
  }
  const Ticket other = others.front();
  if (other->bytes != bytes) {
    throw RuntimeError("one end has " + std::to_string(bytes) + " bytes, the other " + std::to_string(other->bytes));
  }
  others.pop_front();
  if (others.empty() && ends[side].empty()) own.waiting.erase(slot);
  // Under the lock, so that neither end goes on, and frees its memory, meanwhile.
  if (bytes > 0) std::memcpy(side == kReceiving ? data : other->data, side == kSending ? data : other->data, bytes);
  ticket->done = true;
  other->done = true;
  own.changed.notify_all();
  return ticket;
}

bool ProcessMail::await(const Ticket& ticket, Clock::time_point deadline) {
  Channel& own = ticket->channel;
  std::unique_lock lock(own.mutex);
  return own.changed.wait_until(lock, deadline, [&] { return ticket->done; });
}

void ProcessMail::withdraw(const Ticket& ticket) noexcept {
  Channel& own = ticket->channel;
  const std::lock_guard lock(own.mutex);
  const auto found = own.waiting.find(ticket->slot);
  if (found == own.waiting.end()) return;
  std::erase(found->second[ticket->side], ticket);
  if (found->second[kSending].empty() && found->second[kReceiving].empty()) own.waiting.erase(found);
}

void ProcessMail::close(int rank) noexcept {
  for (int peer = first_rank_; peer < first_rank_ + ranks_; ++peer) {
    for (const Route& route : {Route{rank, peer}, Route{peer, rank}}) {
      Channel& own = channel(route);
      const std::lock_guard lock(own.mutex);
      own.closed = true;
      own.waiting.clear();
      own.changed.notify_all();
    }
  }
}

}  // namespace strata::gloo

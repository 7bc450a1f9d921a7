#include "mailbox.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "strata/communicator.hpp"

namespace sockets {
namespace {

/// Subject of the letter that ends all waits. Its text is the reason.
const std::string kAbort = "abort";

/// A letter on a socket begins with the sizes of what follows: subject, text and data.
using Header = std::array<std::uint64_t, 3>;

void append(Bytes& bytes, const void* data, std::size_t size) {
  const auto* begin = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), begin, begin + size);
}

std::string to_text(const std::byte* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

}  // namespace

Mailbox::Mailbox(int rank, Endpoints endpoints, double timeout)
    : rank_(rank), timeout_(timeout), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_.is_open()) throw strata::RuntimeError("eventfd: no more file descriptors");
  for (Descriptor& each : endpoints) peers_.push_back({std::move(each)});
  thread_ = std::thread([this] { run(); });
}

Mailbox::~Mailbox() {
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
  }
  wake();
  thread_.join();
}

void Mailbox::wake() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(bell_.get(), &one, sizeof(one)));
}

void Mailbox::post(int to, const std::string& subject, const std::string& text, const void* data, std::int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_.at(static_cast<std::size_t>(to));
    const auto* begin = static_cast<const std::byte*>(data);
    if (to == rank_) {
      peer.letters[subject].push_back({text, Bytes(begin, begin + bytes)});
      return;
    }
    enqueue(peer, subject, text, data, static_cast<std::size_t>(bytes));
  }
  wake();
}

void Mailbox::enqueue(Peer& peer, const std::string& subject, const std::string& text, const void* data,
                      std::size_t bytes) {
  if (!peer.socket.is_open()) return;
  const Header header = {subject.size(), text.size(), bytes};
  Bytes& letter = peer.to_send.emplace_back();
  append(letter, header.data(), sizeof(header));
  append(letter, subject.data(), subject.size());
  append(letter, text.data(), text.size());
  append(letter, data, bytes);
}

Letter Mailbox::take(int from, const std::string& subject,
                     const std::function<std::string(const std::string&)>& in_words) {
  std::unique_lock lock(mutex_);
  Peer& peer = peers_.at(static_cast<std::size_t>(from));
  std::deque<Letter>& letters = peer.letters[subject];
  const auto is_over = [&] { return abort_reason_ || !letters.empty() || (from != rank_ && !peer.socket.is_open()); };
  const bool woken = changed_.wait_for(lock, std::chrono::duration<double>(timeout_), is_over);
  const std::string name = "rank " + std::to_string(from);
  // The reason of an abort comes first, because ranks that it has stopped leave as well.
  if (abort_reason_) throw strata::AbortedError(in_words("stopped because a rank failed: " + *abort_reason_));
  if (!woken)
    throw strata::RuntimeError(in_words("no answer of " + name + " within " + std::to_string(timeout_) + " s"));
  if (letters.empty()) throw strata::RuntimeError(in_words(name + " has left"));
  Letter letter = std::move(letters.front());
  letters.pop_front();
  if (letters.empty()) peer.letters.erase(subject);
  return letter;
}

void Mailbox::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    abort_locked(reason);
  }
  wake();
}

/// Each rank that learns of an abort tells all others. So a rank never sees another one leave before it knows why.
void Mailbox::abort_locked(const std::string& reason) {
  if (abort_reason_) return;
  abort_reason_ = reason;
  for (Peer& peer : peers_) enqueue(peer, kAbort, reason, nullptr, 0);
  changed_.notify_all();
}

// --- the thread

void Mailbox::run() {
  const auto grace = std::chrono::duration<double>(timeout_);
  std::optional<std::chrono::steady_clock::time_point> leaving_since;
  for (;;) {
    std::vector<pollfd> waiting = {{bell_.get(), POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      const bool has_sent_all =
          std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.to_send.empty(); });
      if (leaves_ && !leaving_since) leaving_since = std::chrono::steady_clock::now();
      if (leaves_ && (has_sent_all || std::chrono::steady_clock::now() - *leaving_since > grace)) return;
      for (const Peer& peer : peers_) {
        const int writes = peer.to_send.empty() ? 0 : POLLOUT;
        waiting.push_back({peer.socket.get(), static_cast<short>(POLLIN | writes), 0});
      }
    }
    // poll() skips descriptors below zero.
    ::poll(waiting.data(), waiting.size(), leaving_since ? 100 : -1);
    std::uint64_t rings = 0;
    static_cast<void>(!::read(bell_.get(), &rings, sizeof(rings)));
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const int events = waiting[i + 1].revents;
      if ((events & POLLOUT) != 0) transmit(peers_[i]);
      if ((events & ~POLLOUT) != 0) receive(peers_[i]);
    }
  }
}

void Mailbox::transmit(Peer& peer) {
  const Bytes& letter = peer.to_send.front();
  const ssize_t count =
      ::send(peer.socket.get(), letter.data() + peer.sent, letter.size() - peer.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
  // If the peer cannot be reached any more, receive() notices.
  if (count < 0) return;
  peer.sent += static_cast<std::size_t>(count);
  if (peer.sent < letter.size()) return;
  peer.to_send.pop_front();
  peer.sent = 0;
}

void Mailbox::receive(Peer& peer) {
  std::array<std::byte, 1 << 16> part;
  const ssize_t count = ::recv(peer.socket.get(), part.data(), part.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    peer.socket = Descriptor();
    peer.to_send.clear();
    changed_.notify_all();
    return;
  }
  append(peer.received, part.data(), static_cast<std::size_t>(count));
  while (deliver_first(peer)) changed_.notify_all();
}

/// Puts the first letter that has been received whole where take() finds it. \return whether there is one.
bool Mailbox::deliver_first(Peer& peer) {
  Header sizes;
  if (peer.received.size() < sizeof(sizes)) return false;
  std::memcpy(sizes.data(), peer.received.data(), sizeof(sizes));
  const auto [subject_size, text_size, data_size] = sizes;
  const std::size_t size = sizeof(sizes) + subject_size + text_size + data_size;
  if (peer.received.size() < size) return false;
  const std::byte* at = peer.received.data() + sizeof(sizes);
  const std::string subject = to_text(at, subject_size);
  Letter letter{to_text(at + subject_size, text_size), {}};
  append(letter.data, at + subject_size + text_size, data_size);
  peer.received.erase(peer.received.begin(), peer.received.begin() + static_cast<std::ptrdiff_t>(size));
  if (subject == kAbort) {
    abort_locked(letter.text);
  } else {
    peer.letters[subject].push_back(std::move(letter));
  }
  return true;
}

}  // namespace sockets

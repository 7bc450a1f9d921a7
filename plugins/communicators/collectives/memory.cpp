#include "collectives/memory.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <utility>

#include "strata/error.hpp"

namespace strata::communicators {
namespace {

constexpr std::size_t kSending = 0;
constexpr std::size_t kReceiving = 1;

}  // namespace

/// How far a message is.
enum class Memory::State : std::uint8_t {
  posted,
  matched,  ///< both ends are posted, and the first that waits copies
  copied,   ///< one end copies at present
  lent,     ///< the receiver reads the sender's memory
  done
};

/// One end of a message. The channel's mutex guards what changes.
struct Memory::Post {
  std::size_t side;
  Parcel parcel;
  State state = State::posted;
  /// The other end, once there is one.
  std::shared_ptr<Post> other = nullptr;
};

struct Memory::Channel {
  using PostPointer = std::shared_ptr<Post>;

  std::mutex mutex;
  std::condition_variable changed;
  /// By slot, then by side.
  std::map<Slot, std::array<std::deque<PostPointer>, 2>> waiting;

  /// Sets the state of both ends.
  void set(Post& post, State state) {
    post.state = post.other->state = state;
    changed.notify_all();
  }
};

Memory::Memory(int first_rank, int ranks)
    : first_rank_(first_rank), ranks_(ranks), notices_(static_cast<std::size_t>(ranks)) {}

Memory::~Memory() = default;

Memory::Channel& Memory::channel(int from, int to) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Channel>& channel = channels_[{from, to}];
  if (!channel) channel = std::make_unique<Channel>();
  return *channel;
}

class MemoryTransport::End final : public Transfer {
  using State = Memory::State;

 public:
  End(std::shared_ptr<Memory> memory, Memory::Channel& channel, std::shared_ptr<DeviceStream> stream, std::size_t side,
      const Parcel& parcel)
      : memory_(std::move(memory)),
        channel_(channel),
        stream_(std::move(stream)),
        post_(std::make_shared<Memory::Post>(Memory::Post{side, parcel})) {
    const std::lock_guard lock(channel_.mutex);
    auto& ends = channel_.waiting[parcel.slot];
    auto& others = ends[1 - side];
    if (others.empty()) {
      ends[side].push_back(post_);
      return;
    }
    post_->other = others.front();
    post_->other->other = post_;
    others.pop_front();
    if (others.empty()) channel_.waiting.erase(parcel.slot);
    if (post_->other->parcel.bytes != parcel.bytes) throw RuntimeError("the ends of a message differ in size");
    const Parcel& received = side == kReceiving ? parcel : post_->other->parcel;
    channel_.set(*post_, received.data == nullptr ? State::lent : State::matched);
  }

  ~End() override {
    std::unique_lock lock(channel_.mutex);
    withdraw();
    const bool is_receive = post_->side == kReceiving;
    if (post_->state == State::lent && is_receive) channel_.set(*post_, State::done);
    // The other end copies or reads, which takes no longer than that.
    channel_.changed.wait(lock, [&] { return post_->state != State::copied && post_->state != State::lent; });
    if (post_->other) post_->other->other = nullptr;
    post_->other = nullptr;
  }

  End(const End&) = delete;
  End& operator=(const End&) = delete;

  bool await(Clock::time_point deadline) override {
    std::unique_lock lock(channel_.mutex);
    while (true) {
      if (is_done()) return true;
      if (post_->state == State::matched) {
        copy(lock);
      } else if (channel_.changed.wait_until(lock, deadline) == std::cv_status::timeout &&
                 post_->state != State::matched) {
        return is_done();
      }
    }
  }

  const void* lent() const override { return post_->other->parcel.data; }

 private:
  [[nodiscard]] bool is_done() const {
    return post_->state == State::done || (post_->state == State::lent && post_->side == kReceiving);
  }

  void copy(std::unique_lock<std::mutex>& lock) {
    const bool receives = post_->side == kReceiving;
    const Parcel& into = receives ? post_->parcel : post_->other->parcel;
    const Parcel& from = receives ? post_->other->parcel : post_->parcel;
    channel_.set(*post_, State::copied);
    lock.unlock();
    try {
      stream_->copy(into.data, from.data, into.bytes);
    } catch (...) {
      lock.lock();
      channel_.set(*post_, State::matched);
      throw;
    }
    lock.lock();
    channel_.set(*post_, State::done);
  }

  /// Removes an end that has not moved. Its other end, if there is one, waits in vain.
  void withdraw() {
    if (post_->state == State::matched) channel_.set(*post_, State::posted);
    const auto found = channel_.waiting.find(post_->parcel.slot);
    if (found == channel_.waiting.end()) return;
    auto& ends = found->second;
    std::erase(ends[post_->side], post_);
    if (ends[kSending].empty() && ends[kReceiving].empty()) channel_.waiting.erase(found);
  }

  std::shared_ptr<Memory> memory_;
  Memory::Channel& channel_;
  std::shared_ptr<DeviceStream> stream_;
  std::shared_ptr<Memory::Post> post_;
};

std::unique_ptr<Transfer> MemoryTransport::send(const Parcel& parcel) {
  return std::make_unique<End>(memory_, memory_->channel(rank_, parcel.peer), stream_, kSending, parcel);
}

std::unique_ptr<Transfer> MemoryTransport::receive(const Parcel& parcel) {
  return std::make_unique<End>(memory_, memory_->channel(parcel.peer, rank_), stream_, kReceiving, parcel);
}

void MemoryTransport::tell(const Notice& notice) noexcept {
  const std::lock_guard lock(memory_->mutex_);
  for (int rank = 0; rank < memory_->ranks_; ++rank) {
    if (memory_->first_rank_ + rank != rank_) memory_->notices_[static_cast<std::size_t>(rank)].push_back(notice);
  }
}

std::vector<Notice> MemoryTransport::notices() {
  const std::lock_guard lock(memory_->mutex_);
  return std::exchange(memory_->notices_[static_cast<std::size_t>(rank_ - memory_->first_rank_)], {});
}

}  // namespace strata::communicators

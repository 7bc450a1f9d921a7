#include "mpi/network.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "collectives/card.hpp"
#include "mpi/pause.hpp"
#include "mpi/process.hpp"
#include "strata/error.hpp"

namespace strata::mpi {
namespace {

using std::chrono::microseconds;

constexpr int kControlTag = 1;
/// MPI guarantees tags up to 32767.
constexpr int kTags = 32766;
/// Control messages that may arrive between two calls of progress() without a copy inside MPI.
constexpr std::size_t kControlSlots = 16;
constexpr std::int64_t kLargestTransfer = std::int64_t{1} << 30;
/// Bytes of a message that travel with the control message.
constexpr std::int64_t kMostPayload = communicators::kEnvelopeBytes;
/// A peer that runs ends its transfers within milliseconds. One that does not run will not.
constexpr std::chrono::seconds kPatience{2};
/// Seconds after a failure in which peers that run have heard of it and left.
constexpr std::chrono::duration<double> kGrace{5};

/// Time without progress after which a thread that waits sleeps between its calls of MPI.
constexpr microseconds kSpinning{1000};

/// True if communication of the rank did not end well.
bool is_bad(const Notice& notice) { return notice.kind == Notice::Kind::failure || !notice.text.empty(); }

}  // namespace

struct Network::Header {
  enum class Kind : std::uint8_t { message, notice, finished };

  Kind kind = Kind::message;
  Notice::Kind notice = Notice::Kind::failure;
  int tag = 0;
  Slot slot = 0;
  std::int64_t bytes = 0;      ///< of the message
  std::int64_t operation = 0;  ///< bytes of a notice's texts
  std::int64_t text = 0;
  std::int64_t payload = 0;  ///< bytes that follow
};

/// One end of a message, or a control message.
struct Network::Post {
  int peer = 0;
  Slot slot = 0;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  bool is_send = false;
  bool done = false;
  int in_flight = 0;
  std::string fault = {};
  /// Memory that lives until the transfer has ended.
  std::unique_ptr<std::byte[]> buffer = {};
};

class Network::End final : public Transfer {
 public:
  End(std::shared_ptr<Network> network, PostPointer post) : network_(std::move(network)), post_(std::move(post)) {}
  ~End() override {
    std::unique_lock lock(network_->mutex_);
    if (!post_->done) network_->withdraw(lock, post_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  bool await(Clock::time_point deadline) override {
    std::unique_lock lock(network_->mutex_);
    const bool done = network_->progress_until(lock, deadline, [this] { return post_->done || !post_->fault.empty(); });
    if (!post_->fault.empty()) throw RuntimeError(post_->fault);
    return done;
  }

 private:
  std::shared_ptr<Network> network_;
  PostPointer post_;
};

Network::Network(MPI_Comm control, MPI_Comm data, int rank, int rank_count)
    : control_(control), data_(data), rank_(rank), rank_count_(rank_count), slots_(kControlSlots) {
  for (ControlSlot& slot : slots_) {
    slot.bytes.resize(sizeof(Header) + static_cast<std::size_t>(kMostPayload));
    expect_control(slot);
  }
  pump_ = std::thread([this] { pump(); });
}

Network::~Network() {
  closing_ = true;
  if (pump_.joinable()) pump_.join();
}

std::unique_ptr<Transfer> Network::send(const Parcel& parcel) {
  const std::lock_guard lock(mutex_);
  if (is_over_) throw RuntimeError("MPI has ended");
  const auto post =
      std::make_shared<Post>(Post{parcel.peer, parcel.slot, static_cast<std::byte*>(parcel.data), parcel.bytes, true});
  Header header{.tag = next_tag_, .slot = parcel.slot, .bytes = parcel.bytes};
  if (parcel.bytes <= kMostPayload) {
    header.payload = parcel.bytes - parcel.unused;
    send_control(parcel.peer, header, parcel.data);
    post->done = true;
  } else {
    next_tag_ = (next_tag_ + 1) % kTags;
    send_control(parcel.peer, header, nullptr);
    start(post, [&](std::int64_t begin, int count, MPI_Request* request) {
      check(MPI_Isend(post->data + begin, count, MPI_BYTE, post->peer, header.tag, data_, request), "MPI_Isend");
    });
  }
  return std::make_unique<End>(shared_from_this(), post);
}

std::unique_ptr<Transfer> Network::receive(const Parcel& parcel) {
  const std::lock_guard lock(mutex_);
  const auto post =
      std::make_shared<Post>(Post{parcel.peer, parcel.slot, static_cast<std::byte*>(parcel.data), parcel.bytes, false});
  const Key key{parcel.peer, parcel.slot};
  const auto arrived = arrivals_.find(key);
  if (arrived == arrivals_.end()) {
    receives_[key].push_back(post);
  } else {
    const Arrival& arrival = arrived->second.front();
    deliver(post, arrival.bytes, arrival.tag, arrival.payload);
    arrived->second.pop_front();
    if (arrived->second.empty()) arrivals_.erase(arrived);
  }
  return std::make_unique<End>(shared_from_this(), post);
}

void Network::tell(const Notice& notice) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    broken_ |= is_bad(notice);
    has_left_ |= notice.kind == Notice::Kind::leaving;
    const std::string operation = notice.operation.substr(0, kMostPayload / 4);
    const std::string text = notice.text.substr(0, kMostPayload / 2);
    const std::string both = operation + text;
    Header header{.kind = Header::Kind::notice, .notice = notice.kind, .slot = notice.slot};
    header.operation = std::ssize(operation);
    header.text = std::ssize(text);
    header.payload = std::ssize(both);
    for (int peer = 0; peer < rank_count_; ++peer) {
      if (peer != rank_) send_control(peer, header, both.data());
    }
  } catch (const std::exception&) {
    // Then the others see that this rank does not answer.
  }
}

std::vector<Notice> Network::notices() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

void Network::send_control(int peer, const Header& header, const void* payload) {
  const auto bytes = sizeof header + static_cast<std::size_t>(header.payload);
  const auto post =
      std::make_shared<Post>(Post{.peer = peer, .bytes = static_cast<std::int64_t>(bytes), .is_send = true});
  post->buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::byte* const buffer = post->buffer.get();
  std::memcpy(buffer, &header, sizeof header);
  // The data of a message may be memory of the device.
  if (header.kind == Header::Kind::message && header.payload > 0) {
    stream_->copy(buffer + sizeof header, payload, header.payload);
  } else if (header.payload > 0) {
    std::memcpy(buffer + sizeof header, payload, static_cast<std::size_t>(header.payload));
  }
  start(post, [&](std::int64_t, int count, MPI_Request* request) {
    check(MPI_Isend(buffer, count, MPI_BYTE, peer, kControlTag, control_, request), "MPI_Isend");
  });
}

void Network::expect_control(ControlSlot& slot) {
  check(MPI_Irecv(slot.bytes.data(), static_cast<int>(slot.bytes.size()), MPI_BYTE, MPI_ANY_SOURCE, kControlTag,
                  control_, &slot.request),
        "MPI_Irecv");
}

void Network::start(const PostPointer& post, const Start& start) {
  for (std::int64_t begin = 0; begin < post->bytes; begin += kLargestTransfer) {
    MPI_Request request = MPI_REQUEST_NULL;
    start(begin, static_cast<int>(std::min(kLargestTransfer, post->bytes - begin)), &request);
    requests_.push_back(request);
    posts_.push_back(post);
    ++post->in_flight;
  }
}

bool Network::take_control() {
  ControlSlot& slot = slots_[next_slot_];
  int arrived = 0;
  MPI_Status status;
  check(MPI_Test(&slot.request, &arrived, &status), "MPI_Test");
  if (arrived == 0) return false;
  int count = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  next_slot_ = (next_slot_ + 1) % slots_.size();
  if (static_cast<std::size_t>(count) < sizeof(Header)) {
    throw RuntimeError("found a control message of " + std::to_string(count) +
                       " bytes; accepted: ranks that run the same build of Strata");
  }
  take(status.MPI_SOURCE, slot.bytes);
  expect_control(slot);
  return true;
}

void Network::take(int from, const std::vector<std::byte>& message) {
  Header header;
  std::memcpy(static_cast<void*>(&header), message.data(), sizeof header);
  const std::byte* payload = message.data() + sizeof header;
  if (header.kind == Header::Kind::finished) {
    finished_peers_.insert(from);
  } else if (header.kind == Header::Kind::notice) {
    const auto* text = reinterpret_cast<const char*>(payload);
    const Notice& notice = notices_.emplace_back(
        Notice{header.notice, from, header.slot, std::string(text, static_cast<std::size_t>(header.operation)),
               std::string(text + header.operation, static_cast<std::size_t>(header.text))});
    broken_ |= is_bad(notice);
  } else {
    const Key key{from, header.slot};
    const auto waiting = receives_.find(key);
    if (waiting == receives_.end()) {
      arrivals_[key].push_back({header.bytes, header.tag, {payload, payload + header.payload}});
      return;
    }
    const PostPointer post = waiting->second.front();
    waiting->second.pop_front();
    if (waiting->second.empty()) receives_.erase(waiting);
    deliver(post, header.bytes, header.tag, {payload, static_cast<std::size_t>(header.payload)});
  }
}

void Network::deliver(const PostPointer& post, std::int64_t bytes, int tag, std::span<const std::byte> payload) {
  if (bytes != post->bytes) {
    post->fault = "found a message of " + std::to_string(bytes) + " bytes; accepted: " + std::to_string(post->bytes);
  } else if (!payload.empty() || bytes == 0) {
    stream_->copy(post->data, payload.data(), std::ssize(payload));
    post->done = true;
  } else {
    start(post, [&](std::int64_t begin, int count, MPI_Request* request) {
      check(MPI_Irecv(post->data + begin, count, MPI_BYTE, post->peer, tag, data_, request), "MPI_Irecv");
    });
  }
}

bool Network::progress() {
  if (is_over_) return false;
  bool any = false;
  while (take_control()) any = true;
  any |= test_requests();
  if (broken_ || has_left_) drop_arrivals();
  return any;
}

bool Network::test_requests() {
  if (requests_.empty()) return false;
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int ended = 0;
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &ended, indices_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
  if (ended == 0 || ended == MPI_UNDEFINED) return false;
  for (int i = 0; i < ended; ++i) {
    const auto index = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    const PostPointer post = std::exchange(posts_[index], nullptr);
    // MPI sets the field in MPI_ERR_IN_STATUS only.
    const int error = code == MPI_SUCCESS ? MPI_SUCCESS : statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
    if (error != MPI_SUCCESS) {
      post->fault = std::string(post->is_send ? "sending to" : "receiving from") + " rank " +
                    std::to_string(post->peer) + ": " + error_text(error);
    }
    if (--post->in_flight == 0 && post->fault.empty()) post->done = true;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (posts_[i] == nullptr) continue;
    requests_[kept] = requests_[i];
    posts_[kept++] = std::move(posts_[i]);
  }
  requests_.resize(kept);
  posts_.resize(kept);
  return true;
}

void Network::drop_arrivals() {
  for (auto& [key, arrivals] : arrivals_) {
    for (Arrival& arrival : arrivals) {
      if (!arrival.payload.empty() || arrival.bytes == 0) continue;
      const auto post = std::make_shared<Post>(Post{.peer = key.first, .bytes = arrival.bytes});
      post->buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(arrival.bytes));
      post->data = post->buffer.get();
      deliver(post, arrival.bytes, arrival.tag, {});
    }
  }
  arrivals_.clear();
}

void Network::withdraw(std::unique_lock<std::mutex>& lock, const PostPointer& post) {
  if (is_over_) return;
  const auto waiting = receives_.find({post->peer, post->slot});
  if (waiting != receives_.end()) {
    std::erase(waiting->second, post);
    if (waiting->second.empty()) receives_.erase(waiting);
  }
  for (std::size_t i = 0; i < requests_.size() && !post->is_send; ++i) {
    if (posts_[i] == post) MPI_Cancel(&requests_[i]);
  }
  // A send ends when its receiver has taken or dropped the data.
  try {
    progress_until(lock, Clock::now() + kPatience, [&post] { return post->in_flight == 0; });
  } catch (const std::exception&) {
    // The failure of MPI is reported by those who wait.
  }
}

bool Network::progress_until(std::unique_lock<std::mutex>& lock, Clock::time_point deadline,
                             const std::function<bool()>& is_over) {
  if (is_over()) return true;
  Pause pause(kSpinning);
  waited_ = true;
  ++waiting_;
  const auto leave = [](std::atomic<int>* waiting) { --*waiting; };
  const std::unique_ptr<std::atomic<int>, decltype(leave)> guard(&waiting_, leave);
  while (true) {
    const bool progressed = progress();
    if (is_over()) return true;
    if (Clock::now() >= deadline) return false;
    lock.unlock();
    pause.rest(progressed);
    lock.lock();
  }
}

void Network::pump() {
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);  // short sleeps are precise
  Pause pause{microseconds(0)};
  while (!closing_) {
    bool progressed = false;
    // A thread that waits lets MPI work more often, and soon does so again.
    if (waiting_ == 0 && !waited_.exchange(false)) {
      const std::lock_guard lock(mutex_);
      try {
        progressed = progress();
      } catch (const std::exception& error) {
        is_over_ = true;
        notices_.push_back({Notice::Kind::failure, rank_, 0, "", std::string("MPI failed: ") + error.what()});
        return;
      }
    }
    pause.rest(progressed);
  }
}

bool Network::finish(std::chrono::duration<double> timeout) {
  if (!has_left_) tell({Notice::Kind::leaving, rank_});
  closing_ = true;
  pump_.join();
  std::unique_lock lock(mutex_);
  const Clock::time_point start = Clock::now();
  const auto wait = [&](const std::function<bool()>& is_over) {
    const auto limit = [&] { return broken_ ? std::min(kGrace, timeout) : timeout; };
    while (!progress_until(lock, Clock::now() + std::chrono::milliseconds(20), is_over)) {
      if (Clock::now() - start >= limit()) return false;
    }
    return true;
  };
  bool complete = false;
  try {
    if (!is_over_ && wait([this] { return requests_.empty(); })) {
      for (int peer = 0; peer < rank_count_; ++peer) {
        if (peer != rank_) send_control(peer, {.kind = Header::Kind::finished}, nullptr);
      }
      complete = wait([this] { return requests_.empty() && std::ssize(finished_peers_) == rank_count_ - 1; });
    }
    for (ControlSlot& slot : slots_) {
      if (!complete) break;
      check(MPI_Cancel(&slot.request), "MPI_Cancel");
      check(MPI_Wait(&slot.request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
  } catch (const std::exception&) {
    complete = false;
  }
  is_over_ = true;
  return complete;
}

}  // namespace strata::mpi

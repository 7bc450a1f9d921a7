#include "operation.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "strata/error.hpp"

namespace strata::nccl {
namespace {

/// Number of marks, more than a graph has nodes.
constexpr std::int64_t kMost = std::int64_t{1} << 19;
constexpr std::int64_t kBytes = 2;

}  // namespace

bool OperationMarks::is_set(unsigned char* mark) {
  // The GPU writes the mark concurrently.
  return std::atomic_ref<unsigned char>(*mark).load(std::memory_order_acquire) != 0;
}

GraphMarks::GraphMarks(GpuRuntime& gpu) : memory_(gpu.allocate_pinned(kMost * kBytes)) {}

OperationMarks GraphMarks::take() {
  if (count_ == kMost) throw RuntimeError("graphs hold more than " + std::to_string(kMost) + " communications");
  auto* const begin = static_cast<unsigned char*>(memory_.get()) + kBytes * count_++;
  return {begin, begin + 1};
}

void GraphMarks::clear(GpuRuntime& gpu, void* stream, std::int64_t begin, std::int64_t end) const {
  if (begin == end) return;
  gpu.fill(stream, static_cast<unsigned char*>(memory_.get()) + kBytes * begin, 0, kBytes * (end - begin));
}

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

namespace {

std::int64_t bytes_of(const CollectiveCall& call) {
  return call.elements * static_cast<std::int64_t>(size_of(call.dtype));
}

/// Fuses NCCL calls into one. The destructor ends the group, also after an error.
class CallGroup {
 public:
  explicit CallGroup(NcclLibrary& nccl) : nccl_(nccl) { nccl_.begin_group(); }
  ~CallGroup() {
    if (ended_) return;
    try {
      nccl_.end_group();
    } catch (...) {
      // Report the first error, not this one.
    }
  }
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  void end() {
    ended_ = true;
    nccl_.end_group();
  }

 private:
  NcclLibrary& nccl_;
  bool ended_ = false;
};

/// Composed of messages, because NCCL has no all_to_all: every rank sends to every rank, including itself.
void all_to_all(const CollectiveCall& call, const Link& link, NcclLibrary& nccl, void* stream) {
  const std::int64_t piece = bytes_of(call) / link.size();
  CallGroup group(nccl);
  for (int peer = 0; peer < link.size(); ++peer) {
    nccl.send(link.handle(), stream, static_cast<const std::byte*>(call.input) + peer * piece, piece, peer);
    nccl.receive(link.handle(), stream, static_cast<std::byte*>(call.output) + peer * piece, piece, peer);
  }
  group.end();
}

/// Copies data that needs no other rank.
void copy(GpuRuntime& gpu, void* stream, void* to, const void* from, std::int64_t bytes) {
  if (to != from) gpu.copy(stream, to, from, bytes);
}

}  // namespace

bool enqueue(const Operation& operation, NcclLibrary& nccl, GpuRuntime& gpu, void* stream) {
  if (operation.is_empty()) return false;
  const MessageCall& message = operation.message;
  switch (operation.kind) {
    case Operation::Kind::collective:
      if (operation.link->size() > 1) {
        if (operation.call.kind == CollectiveKind::all_to_all) {
          all_to_all(operation.call, *operation.link, nccl, stream);
        } else {
          nccl.collective(operation.link->handle(), stream, operation.call, operation.link->size());
        }
        return true;
      }
      copy(gpu, stream, operation.call.output, operation.call.input, bytes_of(operation.call));
      return false;
    case Operation::Kind::send:
      if (!operation.link) return false;
      nccl.send(operation.link->handle(), stream, message.data, message.bytes, 1);
      return true;
    case Operation::Kind::receive:
      if (operation.link) {
        nccl.receive(operation.link->handle(), stream, message.data, message.bytes, 0);
        return true;
      }
      copy(gpu, stream, message.data, operation.own_message, message.bytes);
      return false;
  }
  return false;
}

}  // namespace strata::nccl

#include "gloo/transport.hpp"

#include <gloo/transport/unbound_buffer.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "mesh.hpp"

namespace strata::gloo {
namespace {

using communicators::Clock;
using communicators::Notice;
using communicators::Parcel;
using communicators::Transfer;

/// Time between two looks at the deadlines of waits.
constexpr std::chrono::milliseconds kPause{20};
/// Gloo needs a limit of its own, and closes all connections when it passes.
constexpr std::chrono::hours kForever{24 * 365};
constexpr communicators::Slot kGoodbye = 5;
/// Time beyond the timeout that a rank waits for the others at its end. A rank that still waits for this one gives up
/// first, and names what it waits for.
constexpr std::chrono::seconds kMorePatience{5};

/// Calls gloo. \throws Lost if the connection is lost.
template <class Call>
auto call_gloo(const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    throw communicators::Lost{error.what()};
  }
}

/// Ends waits at their deadlines. A thread looks at them many times a second.
class WaitLimits {
 public:
  WaitLimits() : thread_([this] { run(); }) {}
  ~WaitLimits() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  WaitLimits(const WaitLimits&) = delete;
  WaitLimits& operator=(const WaitLimits&) = delete;

  /// Waits for the posted transfer of `buffer`. \return false after the deadline. \throws what gloo throws if the
  /// connection is lost.
  bool await(::gloo::transport::UnboundBuffer& buffer, Direction direction, Clock::time_point deadline) {
    Wait wait{buffer, direction, deadline};
    {
      const std::lock_guard lock(mutex_);
      waits_.insert(&wait);
    }
    const auto leave = [this](Wait* left) {
      const std::lock_guard lock(mutex_);
      waits_.erase(left);
    };
    const std::unique_ptr<Wait, decltype(leave)> guard(&wait, leave);
    while (true) {
      const bool done =
          direction == Direction::send ? buffer.waitSend(nullptr, kForever) : buffer.waitRecv(nullptr, kForever);
      if (done) return true;
      const std::lock_guard lock(mutex_);
      // An interrupt may be left over from an earlier wait for the same buffer.
      if (wait.late) return false;
    }
  }

 private:
  struct Wait {
    ::gloo::transport::UnboundBuffer& buffer;
    Direction direction;
    Clock::time_point deadline;
    bool late = false;
  };

  void run() {
    std::unique_lock lock(mutex_);
    for (; !closing_; changed_.wait_for(lock, kPause)) {
      for (Wait* wait : waits_) {
        if (Clock::now() < wait->deadline) continue;
        wait->late = true;
        wait->direction == Direction::send ? wait->buffer.abortWaitSend() : wait->buffer.abortWaitRecv();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Wait*> waits_;
  bool closing_ = false;
  std::thread thread_;
};

/// The connections of one rank, and what ends waits for them.
struct Connections {
  explicit Connections(std::unique_ptr<Mesh> connected) : mesh(std::move(connected)) {}

  std::unique_ptr<Mesh> mesh;
  WaitLimits limits;
};

class GlooTransfer final : public Transfer {
 public:
  GlooTransfer(std::shared_ptr<Connections> connections, Direction direction, const Parcel& parcel)
      : connections_(std::move(connections)), direction_(direction) {
    const PipeSignalBlocked blocked;
    call_gloo([&] {
      const auto bytes = static_cast<std::size_t>(parcel.bytes);
      buffer_ = connections_->mesh->buffer(direction, parcel.peer, parcel.data, bytes);
      direction == Direction::send ? buffer_->send(parcel.peer, parcel.slot, 0, bytes)
                                   : buffer_->recv(parcel.peer, parcel.slot, 0, bytes);
    });
  }

  /// Gloo takes back nothing, so the connections end with the transfer.
  ~GlooTransfer() override {
    if (!done_) connections_->mesh->close();
  }
  GlooTransfer(const GlooTransfer&) = delete;
  GlooTransfer& operator=(const GlooTransfer&) = delete;

  bool await(Clock::time_point deadline) override {
    if (!done_) done_ = call_gloo([&] { return connections_->limits.await(*buffer_, direction_, deadline); });
    return done_;
  }

 private:
  std::shared_ptr<Connections> connections_;
  Direction direction_;
  std::unique_ptr<::gloo::transport::UnboundBuffer> buffer_;
  bool done_ = false;
};

class GlooTransport final : public communicators::Transport {
 public:
  GlooTransport(std::unique_ptr<Mesh> mesh, communicators::MemoryTransport memory,
                std::shared_ptr<rendezvous::Store> store, std::chrono::duration<double> patience)
      : connections_(mesh ? std::make_shared<Connections>(std::move(mesh)) : nullptr),
        memory_(std::move(memory)),
        store_(std::move(store)),
        patience_(patience + kMorePatience) {}

  [[nodiscard]] std::unique_ptr<Transfer> send(const Parcel& parcel) override {
    if (memory_.lends(parcel.peer)) return memory_.send(parcel);
    return std::make_unique<GlooTransfer>(connections_, Direction::send, parcel);
  }

  [[nodiscard]] std::unique_ptr<Transfer> receive(const Parcel& parcel) override {
    if (memory_.lends(parcel.peer)) return memory_.receive(parcel);
    return std::make_unique<GlooTransfer>(connections_, Direction::receive, parcel);
  }

  [[nodiscard]] bool lends(int peer) const override { return memory_.lends(peer); }

  void tell(const Notice& notice) noexcept override {
    memory_.tell(notice);
    if (notice.kind != Notice::Kind::failure && notice.text.empty()) return;
    const std::string place = notice.operation.empty() ? "" : notice.operation + ": ";
    store_->fail(notice.rank, notice.kind == Notice::Kind::failure
                                  ? notice.text
                                  : "rank " + std::to_string(notice.rank) + ": " + place + notice.text);
  }

  [[nodiscard]] std::vector<Notice> notices() override {
    std::vector<Notice> notices = memory_.notices();
    if (const auto failure = store_->failure()) {
      notices.push_back({Notice::Kind::failure, failure->rank, 0, "", failure->reason});
    }
    return notices;
  }

  /// Exchanges a byte with every rank of other processes, so that no data in flight is lost.
  void leave() noexcept override {
    if (!connections_) return;
    try {
      char nothing = 0;
      std::vector<std::unique_ptr<Transfer>> transfers;
      connections_->mesh->for_each_peer([&](int peer) {
        transfers.push_back(receive({peer, kGoodbye, &nothing, 1}));
        transfers.push_back(send({peer, kGoodbye, &nothing, 1}));
      });
      const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience_);
      for (const auto& transfer : transfers) {
        while (!transfer->await(std::min(deadline, Clock::now() + kPause))) {
          if (store_->failure() || Clock::now() >= deadline) return;
        }
      }
    } catch (...) {
      // This rank has done its part. The others report what has failed.
    }
  }

 private:
  /// Null if no other process has ranks.
  std::shared_ptr<Connections> connections_;
  communicators::MemoryTransport memory_;
  std::shared_ptr<rendezvous::Store> store_;
  std::chrono::duration<double> patience_;
};

}  // namespace

std::unique_ptr<communicators::Transport> make_transport(std::unique_ptr<Mesh> mesh,
                                                         communicators::MemoryTransport memory,
                                                         std::shared_ptr<rendezvous::Store> store,
                                                         std::chrono::duration<double> patience) {
  return std::make_unique<GlooTransport>(std::move(mesh), std::move(memory), std::move(store), patience);
}

}  // namespace strata::gloo

#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/device_stream.hpp"
#include "collectives/transport.hpp"

namespace strata::mpi {

using communicators::Clock;
using communicators::Notice;
using communicators::Parcel;
using communicators::Slot;
using communicators::Transfer;

/// The messages of this process over MPI. A control message says what comes, and carries it if it is short. A long
/// message follows when the receiver has posted its memory. One thread at a time calls MPI: one that waits, or else the
/// network's own, so that messages also move while the rank computes.
class Network : public std::enable_shared_from_this<Network> {
 public:
  /// `control` and `data`: MPI communicators of all ranks, on which nothing else is sent.
  Network(MPI_Comm control, MPI_Comm data, int rank, int rank_count);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// The stream that copies short messages. Set before the first message.
  void set_stream(std::shared_ptr<communicators::DeviceStream> stream) {
    const std::lock_guard lock(mutex_);
    stream_ = std::move(stream);
  }
  [[nodiscard]] std::unique_ptr<Transfer> send(const Parcel& parcel);
  [[nodiscard]] std::unique_ptr<Transfer> receive(const Parcel& parcel);
  void tell(const Notice& notice) noexcept;
  [[nodiscard]] std::vector<Notice> notices();

  /// Returns when all ranks have finished and every message has arrived, or after the timeout. \return false in the
  /// latter case.
  bool finish(std::chrono::duration<double> timeout);

 private:
  class End;
  struct Post;
  /// The fixed part of a control message. All ranks run the same program on machines of one kind.
  struct Header;
  /// A message of a peer that no receive has taken.
  struct Arrival {
    std::int64_t bytes = 0;
    int tag = 0;
    std::vector<std::byte> payload = {};
  };
  /// A receive of a control message.
  struct ControlSlot {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  /// Peer and slot.
  using Key = std::pair<int, Slot>;
  using PostPointer = std::shared_ptr<Post>;
  using Start = std::function<void(std::int64_t begin, int count, MPI_Request* request)>;

  // The functions below are called with the mutex held.

  void send_control(int peer, const Header& header, const void* payload);
  void expect_control(ControlSlot& slot);
  [[nodiscard]] bool take_control();
  void take(int from, const std::vector<std::byte>& message);
  /// Starts to receive the message that has arrived for `post`, which has `bytes` and, if it is short, this payload.
  void deliver(const PostPointer& post, std::int64_t bytes, int tag, std::span<const std::byte> payload);
  /// Starts transfers of at most 1 GiB each, because MPI counts bytes in an int.
  void start(const PostPointer& post, const Start& start);
  /// Lets MPI work. \return true if something has come or ended.
  bool progress();
  [[nodiscard]] bool test_requests();
  /// Receives long messages that nobody takes any more, so that their sends end.
  void drop_arrivals();
  void withdraw(std::unique_lock<std::mutex>& lock, const PostPointer& post);

  /// Lets MPI work until `is_over` or the deadline. \return is_over().
  bool progress_until(std::unique_lock<std::mutex>& lock, Clock::time_point deadline,
                      const std::function<bool()>& is_over);
  void pump();

  MPI_Comm control_;
  MPI_Comm data_;
  int rank_;
  int rank_count_;
  std::shared_ptr<communicators::DeviceStream> stream_;

  std::mutex mutex_;
  /// The posted receives for control messages. MPI fills them in this order, beginning at `next_slot_`.
  std::vector<ControlSlot> slots_;
  std::size_t next_slot_ = 0;
  // Parallel arrays, as MPI_Testsome wants them.
  std::vector<MPI_Request> requests_;
  std::vector<PostPointer> posts_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::map<Key, std::deque<PostPointer>> receives_;
  std::map<Key, std::deque<Arrival>> arrivals_;
  std::vector<Notice> notices_;
  int next_tag_ = 0;
  std::set<int> finished_peers_;
  bool has_left_ = false;
  /// True if communication of some rank did not end well.
  bool broken_ = false;
  bool is_over_ = false;
  /// Threads that wait, and let MPI work.
  std::atomic<int> waiting_ = 0;
  /// True if one has waited since the network's thread looked.
  std::atomic<bool> waited_ = false;
  std::atomic<bool> closing_ = false;
  std::thread pump_;
};

}  // namespace strata::mpi

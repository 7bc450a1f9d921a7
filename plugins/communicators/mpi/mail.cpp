#include "mail.hpp"

#include <memory>
#include <span>

#include "library.hpp"
#include "strata/error.hpp"

namespace strata::mpi {
namespace {

constexpr int kControlTag = 1;
/// Messages that may arrive between two calls of progress() without a copy inside MPI.
constexpr std::size_t kSlots = 16;

}  // namespace

Mail::Mail(MPI_Comm communicator, int rank)
    : communicator_(communicator), rank_(rank), sends_(communicator), slots_(kSlots) {
  for (Slot& slot : slots_) {
    slot.bytes.resize(kControlBytes);
    expect(slot);
  }
}

void Mail::expect(Slot& slot) {
  check(MPI_Irecv(slot.bytes.data(), static_cast<int>(slot.bytes.size()), MPI_BYTE, MPI_ANY_SOURCE, kControlTag,
                  communicator_, &slot.request),
        "MPI_Irecv");
}

void Mail::send(int peer, const Control& control) {
  if (peer == rank_) return own_.push_back(control);
  const auto bytes = std::make_shared<std::vector<std::byte>>(encode(control));
  // The function that MPI's end calls keeps the bytes until then.
  sends_.send(ticket_, bytes->data(), static_cast<std::int64_t>(bytes->size()), peer, kControlTag, [bytes] {});
}

bool Mail::progress(const Handler& handler) {
  bool any = false;
  for (; !own_.empty(); any = true) {
    Control control = std::move(own_.front());
    own_.pop_front();
    handler(rank_, std::move(control));
  }
  while (true) {
    Slot& slot = slots_[next_];
    int arrived = 0;
    MPI_Status status;
    check(MPI_Test(&slot.request, &arrived, &status), "MPI_Test");
    if (arrived == 0) break;
    int count = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    Control control = decode(std::span(slot.bytes).first(static_cast<std::size_t>(count)));
    expect(slot);
    next_ = (next_ + 1) % slots_.size();
    handler(status.MPI_SOURCE, std::move(control));
    any = true;
  }
  sends_.progress();
  if (!ticket_->fault.empty()) throw RuntimeError(ticket_->fault);
  return any;
}

void Mail::close() {
  for (Slot& slot : slots_) {
    check(MPI_Cancel(&slot.request), "MPI_Cancel");
    check(MPI_Wait(&slot.request, MPI_STATUS_IGNORE), "MPI_Wait");
  }
}

}  // namespace strata::mpi

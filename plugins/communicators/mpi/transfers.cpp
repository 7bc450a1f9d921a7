#include "transfers.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

#include "library.hpp"

namespace strata::mpi {
namespace {

constexpr std::int64_t kLargestTransfer = std::int64_t{1} << 30;

}  // namespace

template <class Start>
void Transfers::split(const Entry& entry, std::int64_t bytes, const Start& start) {
  if (entry.ticket->stopped) return;
  const std::int64_t parts = std::max<std::int64_t>(1, (bytes + kLargestTransfer - 1) / kLargestTransfer);
  Entry part = entry;
  if (parts > 1) {
    part.ended = [left = std::make_shared<std::int64_t>(parts), ended = entry.ended] {
      if (--*left == 0) ended();
    };
  }
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t begin = i * kLargestTransfer;
    MPI_Request request = MPI_REQUEST_NULL;
    start(begin, static_cast<int>(std::min(kLargestTransfer, bytes - begin)), &request);
    requests_.push_back(request);
    entries_.push_back(part);
    ++entry.ticket->in_flight[entry.peer];
    if (entry.is_send) ++sends_;
  }
}

void Transfers::send(const TicketPointer& ticket, const void* data, std::int64_t bytes, int peer, int tag,
                     Ended ended) {
  split({ticket, peer, true, std::move(ended)}, bytes, [&](std::int64_t begin, int count, MPI_Request* request) {
    check(MPI_Isend(static_cast<const std::byte*>(data) + begin, count, MPI_BYTE, peer, tag, communicator_, request),
          "MPI_Isend");
  });
}

void Transfers::receive(const TicketPointer& ticket, void* data, std::int64_t bytes, int peer, int tag, Ended ended) {
  split({ticket, peer, false, std::move(ended)}, bytes, [&](std::int64_t begin, int count, MPI_Request* request) {
    check(MPI_Irecv(static_cast<std::byte*>(data) + begin, count, MPI_BYTE, peer, tag, communicator_, request),
          "MPI_Irecv");
  });
}

void Transfers::stop(const TicketPointer& ticket) {
  ticket->stopped = true;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].ticket != ticket || entries_[i].is_send) continue;
    check(MPI_Cancel(&requests_[i]), "MPI_Cancel");
  }
}

bool Transfers::progress() {
  if (requests_.empty()) return false;
  const auto count = static_cast<int>(requests_.size());
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int ended = 0;
  const int code = MPI_Testsome(count, requests_.data(), &ended, indices_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
  if (ended == 0 || ended == MPI_UNDEFINED) return false;
  std::vector<std::pair<Entry, MPI_Status>> ends;
  for (int i = 0; i < ended; ++i) {
    const auto place = static_cast<std::size_t>(i);
    MPI_Status status = statuses_[place];
    if (code == MPI_SUCCESS) status.MPI_ERROR = MPI_SUCCESS;  // set in MPI_ERR_IN_STATUS only
    ends.emplace_back(std::move(entries_[static_cast<std::size_t>(indices_[place])]), status);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (entries_[i].ticket == nullptr) continue;  // moved to `ends`
    if (kept != i) {
      requests_[kept] = requests_[i];
      entries_[kept] = std::move(entries_[i]);
    }
    ++kept;
  }
  requests_.resize(kept);
  entries_.resize(kept);
  for (auto& [entry, status] : ends) end(entry, status);
  return true;
}

void Transfers::end(Entry& entry, MPI_Status& status) {
  Ticket& ticket = *entry.ticket;
  const auto count = ticket.in_flight.find(entry.peer);
  if (--count->second == 0) ticket.in_flight.erase(count);
  if (entry.is_send) --sends_;
  if (ticket.stopped) return;
  if (status.MPI_ERROR != MPI_SUCCESS) {
    ticket.fault = std::string(entry.is_send ? "sending to" : "receiving from") + " rank " +
                   std::to_string(entry.peer) + ": " + error_text(status.MPI_ERROR);
    return;
  }
  try {
    entry.ended();
  } catch (const std::exception& error) {
    ticket.fault = error.what();
  }
}

bool Transfers::drop_message() {
  int found = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &found, &message, &status), "MPI_Improbe");
  if (found == 0) return false;
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  auto memory = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  const auto ticket = std::make_shared<Ticket>();
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Imrecv(memory->data(), bytes, MPI_BYTE, &message, &request), "MPI_Imrecv");
  ticket->memory = memory;
  ++ticket->in_flight[status.MPI_SOURCE];
  requests_.push_back(request);
  entries_.push_back({ticket, status.MPI_SOURCE, false, [] {}});
  return true;
}

}  // namespace strata::mpi

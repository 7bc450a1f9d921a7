#include "connection.hpp"

#include <chrono>
#include <sstream>
#include <thread>

#include "library.hpp"
#include "strata/error.hpp"

namespace strata::mpi {

Connection::Connection(double timeout) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(MPI_COMM_WORLD, &communicator_, &request), "MPI_Comm_idup");
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) break;
    if (std::chrono::steady_clock::now() - start >= std::chrono::duration<double>(timeout)) {
      std::ostringstream text;
      text << "waited " << timeout << " s for the other processes of MPI to start this world";
      throw RuntimeError(text.str());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

Connection::~Connection() {
  if (communicator_ != MPI_COMM_NULL) MPI_Comm_free(&communicator_);
}

HostPlace find_host_place(const Connection& connection) {
  int rank = 0;
  check(MPI_Comm_rank(connection.get(), &rank), "MPI_Comm_rank");
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(connection.get(), MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  HostPlace place;
  const int size_code = MPI_Comm_size(host, &place.ranks_on_host);
  const int rank_code = MPI_Comm_rank(host, &place.index_on_host);
  MPI_Comm_free(&host);
  check(size_code, "MPI_Comm_size");
  check(rank_code, "MPI_Comm_rank");
  return place;
}

}  // namespace strata::mpi

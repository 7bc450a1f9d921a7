#include "process.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <thread>

#include "strata/error.hpp"

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace strata::mpi {
namespace {

/// Open MPI and MPICH extend MPI by this question, each with a header or version of its own.
bool knows_cuda() {
#if defined(MPIX_CUDA_AWARE_SUPPORT) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

/// Between processes of one machine, Open MPI sends up to 4 KiB at once. For one byte more, the receiver reads the
/// sender's memory by a call of the system, and then answers: 7 us instead of 2. The longest control message with its
/// payload is a little longer. What the user has set stays.
void take_short_messages_at_once() {
  for (const char* name : {"OMPI_MCA_btl_vader_eager_limit", "OMPI_MCA_btl_sm_eager_limit"}) ::setenv(name, "8192", 0);
}

}  // namespace

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  // Open MPI adds its package and dates after a comma, MPICH its options after a line's end, and tabulators.
  std::string version(text.data());
  version.resize(std::min(version.find_first_of(",\n"), version.size()));
  std::replace(version.begin(), version.end(), '\t', ' ');
  return version;
}

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return {text.data(), static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw RuntimeError(std::string(call) + ": " + error_text(code));
}

std::string no_device_memory() {
  return knows_cuda() ? "" : "this MPI does not read or write the memory of GPUs (it is not CUDA-aware)";
}

Process& Process::get() {
  static Process process;
  return process;
}

Process::Process() : process_id_(::getpid()) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  int level = MPI_THREAD_SERIALIZED;
  if (initialised == 0) {
    take_short_messages_at_once();
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    finalises_ = true;
  } else {
    check(MPI_Query_thread(&level), "MPI_Query_thread");
  }
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &rank_count_), "MPI_Comm_size");
  if (level < MPI_THREAD_SERIALIZED) {
    if (finalises_) MPI_Finalize();
    throw ConfigurationError("found an MPI that only one thread may call; accepted: one with MPI_THREAD_SERIALIZED");
  }
}

bool Process::is_forked() const { return ::getpid() != process_id_; }

Process::~Process() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised != 0 || !finalises_ || is_forked()) return;
  if (complete_) {
    MPI_Finalize();
    return;
  }
  // MPI_Abort ends this process at once.
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

Stay::Stay(Process& process) : process_(process) {
  if (process_.is_forked()) throw RuntimeError("communicator 'mpi' cannot join in a process forked from one of MPI");
  if (process_.occupied_) {
    throw RuntimeError("communicator 'mpi' joins one world at a time, and this process has one already");
  }
  if (!process_.complete_) {
    throw RuntimeError("communicator 'mpi' cannot join again: an earlier world did not end on all ranks");
  }
  process_.occupied_ = true;
  process_.complete_ = false;
}

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

#include "process.hpp"

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "library.hpp"
#include "strata/error.hpp"

namespace strata::mpi {

Process& Process::get() {
  static Process process;
  return process;
}

Process::Process() : process_id_(::getpid()) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  int level = MPI_THREAD_SERIALIZED;
  if (initialised == 0) {
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

}  // namespace strata::mpi

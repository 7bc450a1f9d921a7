#include "library.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>

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

}  // namespace strata::mpi

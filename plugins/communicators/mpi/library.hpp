#pragma once

#include <string>

namespace strata::mpi {

/// MPI's own text of an error code.
[[nodiscard]] std::string error_text(int code);

/// \throws RuntimeError that names `call` and MPI's reason unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

/// The name and the version of this MPI, such as "Open MPI v4.1.4".
[[nodiscard]] std::string library_version();

/// Why this MPI cannot read and write the memory of a GPU. Empty if it can.
[[nodiscard]] std::string no_device_memory();

}  // namespace strata::mpi

#pragma once

#include <string>
#include <vector>

namespace strata::testing {

/// The command that starts `count` processes of MPI, before the program's words. Open MPI runs more processes than the
/// machine has cores, and as root, only if it is told to. Other launchers ignore these variables.
inline std::vector<std::string> mpirun(const std::string& count) {
  return {"env",
          "OMPI_ALLOW_RUN_AS_ROOT=1",
          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "OMPI_MCA_rmaps_base_oversubscribe=1",
          "OMPI_MCA_hwloc_base_binding_policy=none",
          STRATA_MPIRUN,
          "-n",
          count};
}
inline std::vector<std::string> mpirun(int count) { return mpirun(std::to_string(count)); }

}  // namespace strata::testing

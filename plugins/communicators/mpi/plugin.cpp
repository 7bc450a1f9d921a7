#include "strata/plugin.hpp"

#include "world.hpp"

STRATA_PLUGIN(communicator, "mpi", STRATA_VERSION, "Apache-2.0",
              "Ranks are processes that an MPI launcher starts, on one machine or many.",
              strata::mpi::MpiCommunicatorFactory);

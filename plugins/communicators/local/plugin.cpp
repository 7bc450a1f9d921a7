#include "strata/plugin.hpp"

#include "world.hpp"

STRATA_PLUGIN(communicator, "local", STRATA_VERSION, "Apache-2.0",
              "Ranks are threads of one process and read each other's memory directly.",
              strata::local::LocalCommunicatorFactory);

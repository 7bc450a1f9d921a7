#include "strata/plugin.hpp"

#include "world.hpp"

STRATA_PLUGIN(communicator, "gloo", STRATA_VERSION, "Apache-2.0",
              "CPU ranks as processes on one or more machines, over TCP.", strata::gloo::GlooCommunicatorFactory);

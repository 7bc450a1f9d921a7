#include "strata/plugin.hpp"

#include "factory.hpp"

STRATA_PLUGIN(communicator, "nccl", STRATA_VERSION, "Apache-2.0",
              "GPUs of one or more machines over NCCL; ranks are threads of one process or processes.",
              strata::nccl::NcclCommunicatorFactory);

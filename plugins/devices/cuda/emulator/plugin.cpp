#include "strata/plugin.hpp"

#include "device/cuda_device.hpp"

STRATA_PLUGIN(device, "cuda_emulated", STRATA_VERSION, "Apache-2.0",
              "The cuda device with its kernels run by the processor, for tests: slow",
              strata::cuda::CudaDeviceFactory);

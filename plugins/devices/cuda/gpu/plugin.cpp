#include "strata/plugin.hpp"

#include "device/cuda_device.hpp"

STRATA_PLUGIN(device, "cuda", STRATA_VERSION, "Apache-2.0",
              "NVIDIA GPUs of compute capability 8.0 and above, on f32, bf16, f16 and f64 elements",
              strata::cuda::CudaDeviceFactory);

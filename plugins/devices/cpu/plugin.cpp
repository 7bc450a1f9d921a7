#include "strata/plugin.hpp"

#include "cpu_device.hpp"

STRATA_PLUGIN(device, "cpu", STRATA_VERSION, "Apache-2.0",
              "The processor's vector and matrix units, f32, with bf16 inputs of matrix products",
              strata::cpu::CpuDeviceFactory);

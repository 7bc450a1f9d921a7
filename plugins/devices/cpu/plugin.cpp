#include "strata/plugin.hpp"

#include "cpu_device.hpp"

STRATA_PLUGIN(device, "cpu", STRATA_VERSION, "Apache-2.0",
              "The processor's vector and matrix units, on f32, bf16 and f16 elements", strata::cpu::CpuDeviceFactory);

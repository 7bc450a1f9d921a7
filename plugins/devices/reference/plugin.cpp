#include "strata/plugin.hpp"

#include "reference_device.hpp"

STRATA_PLUGIN(device, "reference", STRATA_VERSION, "Apache-2.0",
              "The definition of every op in plain code, f64 and f32, on one thread",
              strata::reference::ReferenceDeviceFactory);

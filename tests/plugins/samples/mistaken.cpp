#include "sample.hpp"

// The record says model, the factory is a strategy's.
STRATA_PLUGIN(model, "mistaken", "1.2.3", "Apache-2.0", "A plugin of another kind than it says.", SampleFactory);

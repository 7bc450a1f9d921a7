#include "sample.hpp"

// The record declares a model, but the factory is that of a strategy.
STRATA_PLUGIN(model, "mistaken", "1.2.3", "Apache-2.0", "A plugin of another kind than it says.", SampleFactory);

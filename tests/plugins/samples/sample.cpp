#include "sample.hpp"

STRATA_PLUGIN(strategy, "sample", "1.2.3", "Apache-2.0", "A sound plugin.", SampleFactory);

#include "sample.hpp"

// Compiled without type information, by which the host distinguishes factories and exceptions.
STRATA_PLUGIN(strategy, "without_rtti", "1.2.3", "Apache-2.0", "A plugin without type information.", SampleFactory);

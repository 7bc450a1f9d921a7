#include "sample.hpp"

// Rename the entry point that the macro defines, so that the host finds none.
#define strata_plugin_entry strata_other_entry
STRATA_PLUGIN(strategy, "without_entry", "1.2.3", "Apache-2.0", "A plugin without its entry point.", SampleFactory);

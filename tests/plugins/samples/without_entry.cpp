#include "sample.hpp"

// The entry point that the macro writes gets another name.
#define strata_plugin_entry strata_other_entry
STRATA_PLUGIN(strategy, "without_entry", "1.2.3", "Apache-2.0", "A plugin without its entry point.", SampleFactory);

#include "sample.hpp"

namespace {

class UnusedFactory final : public SampleFactory {};

}  // namespace

// Rename the entry point that the macro defines. The one that the host calls has no factory.
#define strata_plugin_entry strata_other_entry
STRATA_PLUGIN(strategy, "null_factory", "1.2.3", "Apache-2.0", "A plugin without a factory.", UnusedFactory);
#undef strata_plugin_entry

extern "C" STRATA_API strata::PluginFactory* strata_plugin_entry();
extern "C" STRATA_API strata::PluginFactory* strata_plugin_entry() { return nullptr; }

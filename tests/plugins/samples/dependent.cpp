#include "sample.hpp"

int strata_sample_absent();

namespace {

class DependentFactory : public SampleFactory {
 public:
  DependentFactory() { (void)strata_sample_absent(); }
};

}  // namespace

STRATA_PLUGIN(strategy, "dependent", "1.2.3", "Apache-2.0", "A plugin that needs an absent library.", DependentFactory);

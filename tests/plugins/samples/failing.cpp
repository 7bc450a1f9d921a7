#include "sample.hpp"

namespace {

class FailingFactory : public SampleFactory {
 public:
  FailingFactory() { throw strata::RuntimeError("no such hardware"); }
};

}  // namespace

STRATA_PLUGIN(strategy, "failing", "1.2.3", "Apache-2.0", "A plugin that cannot start.", FailingFactory);

#include "common/options.hpp"

namespace strata::models {

OptionSpecification size_option(const std::string& name, const std::string& documentation, double maximum) {
  return option::integer(name, 0, 0, maximum, documentation);
}

OptionSpecification documents_option() { return option::boolean("documents", false, ""); }

}  // namespace strata::models

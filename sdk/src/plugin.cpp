#include "strata/plugin.hpp"

namespace strata {

PluginFactory::~PluginFactory() = default;
LibraryFactory::~LibraryFactory() = default;

void PluginFactory::provide(Registration& /*registration*/, const Options& /*options*/) const {}

std::string_view to_string(PluginKind kind) {
  switch (kind) {
    case PluginKind::strategy:
      return "strategy";
    case PluginKind::model:
      return "model";
    case PluginKind::communicator:
      return "communicator";
    case PluginKind::device:
      return "device";
    case PluginKind::library:
      return "library";
    case PluginKind::optimizer:
      return "optimizer";
    case PluginKind::dataset:
      return "dataset";
  }
  return "unknown";
}

std::string_view build_flavour() { return STRATA_FLAVOUR; }

}  // namespace strata

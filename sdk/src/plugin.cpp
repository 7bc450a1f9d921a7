#include "strata/plugin.hpp"

namespace strata {

PluginFactory::~PluginFactory() = default;

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
  }
  return "unknown";
}

std::string_view build_flavour() { return STRATA_FLAVOUR; }

}  // namespace strata

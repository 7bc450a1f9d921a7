#include <algorithm>
#include <utility>

#include "conformance/check.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

/// The kinds of plugins that some checks are for. Empty: every kind.
struct Group {
  std::vector<PluginKind> kinds;
  std::vector<Check> (*checks)();
};

std::string kinds_text(const Check& check) {
  std::vector<std::string> names;
  for (const PluginKind kind : check.kinds) names.emplace_back(to_string(kind));
  return names.empty() ? "every" : join(names, ", ");
}

}  // namespace

bool Check::applies_to(PluginKind kind) const {
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

const std::vector<Check>& all_checks() {
  using enum PluginKind;
  static const std::vector<Check> kChecks = [] {
    std::vector<Check> checks;
    for (const Group& group : {Group{{}, plugin_checks},
                               {{}, option_checks},
                               {{}, op_checks},
                               {{strategy}, strategy_checks},
                               {{model}, model_checks},
                               {{optimizer}, optimizer_checks},
                               {{dataset}, dataset_checks},
                               {{communicator}, communicator_checks},
                               {{device}, device_checks},
                               // The kinds whose objects a run trains with.
                               {{strategy, model, optimizer, device, communicator}, determinism_checks}}) {
      for (Check check : group.checks()) {
        check.kinds = group.kinds;
        checks.push_back(std::move(check));
      }
    }
    return checks;
  }();
  return kChecks;
}

std::string checks_markdown() {
  std::string text = "| check | plugins | what is promised | what a user would lose |\n|---|---|---|---|\n";
  for (const Check& check : all_checks()) {
    text += "| " + std::string(check.number) + " | " + kinds_text(check) + " | " + std::string(check.promise) + " | " +
            std::string(check.loss) + " |\n";
  }
  return text;
}

}  // namespace strata::host

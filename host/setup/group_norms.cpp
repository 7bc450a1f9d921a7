#include "setup/group_norms.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "compiler/parameters/step_end.hpp"

namespace strata::host {

std::string layer_of(const std::string& parameter) {
  std::istringstream parts(parameter);
  std::string layer;
  for (std::string part; std::getline(parts, part, '.');) {
    layer += (layer.empty() ? "" : ".") + part;
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos) return layer;
  }
  return layer.substr(0, layer.rfind('.'));
}

std::function<std::string(const std::string&)> norm_group_rule(const RunConfiguration& configuration,
                                                               const OptimizerSettings& optimizer) {
  switch (configuration.log.chosen_groups()) {
    case NormGroups::layer:
      return layer_of;
    case NormGroups::optimizer_group: {
      std::vector<std::string> names;
      for (const OptimizerGroupSection& group : configuration.optimizer.groups) names.push_back(join(group.parameters));
      names.emplace_back("others");
      return [names = std::move(names), optimizer](const std::string& parameter) {
        return names.at(static_cast<std::size_t>(group_of(optimizer, parameter)));
      };
    }
    default:
      return {};
  }
}

std::vector<GroupNorm> read_group_norms(Executor& executor, const NormGroupIndex& groups, const Reports& reports,
                                        double loss_scale, int replicas) {
  if (groups.names.empty()) return {};
  std::vector<double> squares(groups.names.size());
  executor.read(executor.program().reports.at(kGroupSquaresReport), squares.data());
  const double count = reports.at("count") / replicas;
  std::vector<GroupNorm> norms;
  for (std::size_t i = 0; i < squares.size(); ++i) {
    const double norm = count > 0 ? std::sqrt(squares[i] / replicas) / (count * loss_scale) : 0;
    norms.push_back({groups.names[i], norm});
  }
  return norms;
}

}  // namespace strata::host

#include "compiler/placement/rank_class.hpp"

#include <algorithm>
#include <map>

namespace strata::host {

RankClasses classify_ranks(const Mesh& mesh, const Stages& stages, const std::vector<ParameterStorage>& storage) {
  const auto single =
      std::find_if(storage.begin(), storage.end(), [](const ParameterStorage& each) { return each.single_writer; });
  RankClasses classes;
  std::map<std::pair<int, bool>, int> numbers;
  for (int rank = 0; rank < mesh.rank_count(); ++rank) {
    const Coordinates at = mesh.coordinates(rank);
    const RankClass mine{stages.axis.empty() ? 0 : at.at(stages.axis),
                         single == storage.end() || at.at(single->axes.front()) == 0};
    const auto [number, added] =
        numbers.try_emplace({mine.stage, mine.updates}, static_cast<int>(classes.classes.size()));
    if (added) classes.classes.push_back(mine);
    classes.of_rank.push_back(number->second);
  }
  return classes;
}

}  // namespace strata::host

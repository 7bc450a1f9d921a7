#include "strata/internal/group_runs.hpp"

#include <algorithm>
#include <sstream>

#include "strata/kernel_tools.hpp"

namespace strata {
namespace {

constexpr const char* kEnds = "ends";
constexpr const char* kCount = "groups";

}  // namespace

Attributes group_attributes(const std::vector<GroupEnd>& ends, std::int64_t count) {
  std::ostringstream text;
  for (const GroupEnd& each : ends) text << each.end << ' ' << each.group << ' ';
  return {{kEnds, text.str()}, {kCount, count}};
}

std::vector<GroupRun> group_runs(const OpInstance& op) {
  std::vector<GroupRun> runs;
  for (const IndexSegment& segment : kernels::index_map(op, "flat").segments) {
    std::istringstream text(op.attributes.word(kEnds));
    std::int64_t begin = 0;
    for (GroupEnd each; text >> each.end >> each.group; begin = each.end) {
      const std::int64_t first = std::max(begin, segment.global_begin);
      const std::int64_t last = std::min(each.end, segment.global_begin + segment.length);
      if (first < last) runs.push_back({segment.local_begin + first - segment.global_begin, last - first, each.group});
    }
  }
  return runs;
}

}  // namespace strata

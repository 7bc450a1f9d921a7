#include "strata/mesh.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "strata/error.hpp"
#include "strata/tensor.hpp"

namespace strata {

namespace {

/// Limit of ranks, because several tables have an entry for every rank.
constexpr int kMostRanks = 1 << 20;

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  std::set<Axis> seen;
  int left = kMostRanks;
  for (const MeshAxis& axis : axes_) {
    if (!seen.insert(axis.name).second) {
      throw ConfigurationError("mesh axis '" + axis.name + "' is added twice; give each strategy an axis of its own");
    }
    if (axis.size < 1) {
      throw ConfigurationError("mesh axis '" + axis.name + "' has size " + std::to_string(axis.size) +
                               "; at least 1 is needed");
    }
    left /= axis.size;
  }
  if (left == 0) {
    std::vector<std::string> sizes;
    for (const MeshAxis& axis : axes_) sizes.push_back(axis.name + "=" + std::to_string(axis.size));
    throw ConfigurationError("the mesh " + join(sizes, " ") + " has too many ranks; at most " +
                             std::to_string(kMostRanks) + " are accepted");
  }
}

int Mesh::rank_count() const {
  int count = 1;
  for (const MeshAxis& axis : axes_) count *= axis.size;
  return count;
}

bool Mesh::has(const Axis& axis) const {
  return std::ranges::any_of(axes_, [&](const MeshAxis& each) { return each.name == axis; });
}

int Mesh::order(const Axis& axis) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return static_cast<int>(i);
  }
  throw VerificationError("the mesh has no axis '" + axis + "'");
}

int Mesh::size(const Axis& axis) const { return axes_[static_cast<std::size_t>(order(axis))].size; }

int Mesh::size(const std::vector<Axis>& axes) const {
  int product = 1;
  for (const Axis& axis : axes) product *= size(axis);
  return product;
}

Coordinates Mesh::coordinates(int rank) const {
  if (rank < 0 || rank >= rank_count()) throw VerificationError("the mesh has no rank " + std::to_string(rank));
  Coordinates result;
  for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
    result[axis->name] = rank % axis->size;
    rank /= axis->size;
  }
  return result;
}

int Mesh::rank(const Coordinates& coordinates) const {
  int rank = 0;
  for (const MeshAxis& axis : axes_) {
    const auto found = coordinates.find(axis.name);
    if (found == coordinates.end() || found->second < 0 || found->second >= axis.size) {
      throw VerificationError("coordinates do not fit mesh axis '" + axis.name + "'");
    }
    rank = rank * axis.size + found->second;
  }
  return rank;
}

std::vector<int> Mesh::group(int rank, const std::vector<Axis>& axes) const {
  std::vector<Axis> ordered = axes;
  std::ranges::sort(ordered, [this](const Axis& a, const Axis& b) { return order(a) < order(b); });
  Coordinates at = coordinates(rank);
  const int count = size(ordered);
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(count));
  for (int member = 0; member < count; ++member) {
    int rest = member;
    for (auto axis = ordered.rbegin(); axis != ordered.rend(); ++axis) {
      at[*axis] = rest % size(*axis);
      rest /= size(*axis);
    }
    ranks.push_back(this->rank(at));
  }
  return ranks;
}

}  // namespace strata

#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "strata/layout.hpp"
#include "strata/mesh.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// \file
/// Ranks that cannot be told apart need to be looked at once. A folded mesh has the axes of the whole one, of which
/// some are shorter: an axis ends at the coordinate from which on it makes no difference. A rank of the folded mesh
/// stands for the rank with the same coordinates in the whole mesh, and for those with larger coordinates along the
/// axes whose end it has. Example: in a mesh dp=2048 pp=8 tp=8, programs differ along pp only, so dp=1 pp=8 tp=1
/// remain.

/// The coordinate of ranks along one axis, for loops over many ranks. Mesh::coordinates() makes a map for each.
class AxisCoordinate {
 public:
  AxisCoordinate(const Mesh& mesh, const Axis& axis) : size_(mesh.size(axis)) {
    for (std::size_t i = static_cast<std::size_t>(mesh.order(axis)) + 1; i < mesh.axes().size(); ++i) {
      stride_ *= mesh.axes()[i].size;
    }
  }

  [[nodiscard]] int operator()(int rank) const { return rank / stride_ % size_; }
  /// Distance between ranks that are neighbours along the axis.
  [[nodiscard]] int stride() const { return stride_; }

 private:
  int size_;
  int stride_ = 1;
};

/// The ranks that have the coordinates `some`, in ascending order.
[[nodiscard]] std::vector<int> ranks_at(const Mesh& mesh, const Coordinates& some);

/// Folds every axis that is not in `kept`. `of_rank`: what tells ranks apart, such as their class.
template <class Label>
[[nodiscard]] Mesh folded_mesh(const Mesh& mesh, const std::vector<Label>& of_rank, const AxisSet& kept) {
  std::vector<MeshAxis> axes = mesh.axes();
  for (MeshAxis& axis : axes) {
    if (kept.contains(axis.name)) continue;
    const AxisCoordinate coordinate(mesh, axis.name);
    axis.size = 1;
    for (int rank = 0; rank < mesh.rank_count(); ++rank) {
      const auto own = static_cast<std::size_t>(rank);
      if (coordinate(rank) < axis.size) continue;
      const auto before = own - static_cast<std::size_t>(coordinate.stride());
      if (of_rank.at(own) != of_rank.at(before)) axis.size = coordinate(rank) + 1;
    }
  }
  return Mesh(std::move(axes));
}

/// The labels of the ranks of `folded`.
template <class Label>
[[nodiscard]] std::vector<Label> folded_labels(const Mesh& folded, const Mesh& mesh,
                                               const std::vector<Label>& of_rank) {
  std::vector<Label> labels;
  for (int rank = 0; rank < folded.rank_count(); ++rank) {
    labels.push_back(of_rank.at(static_cast<std::size_t>(mesh.rank(folded.coordinates(rank)))));
  }
  return labels;
}

/// The axes along which the program chooses ranks by their coordinates: the peers of messages, and the members of
/// collectives. If these axes are kept, communication on the folded mesh matches and ends exactly if it does on the
/// whole one: ranks that fold into one execute the same program, and a collective over a folded axis is one of all its
/// ranks.
[[nodiscard]] AxisSet addressed_axes(const Program& program);

}  // namespace strata::host

#pragma once

#include <map>
#include <string>
#include <vector>

#include "strata/export.hpp"

namespace strata {

/// The name of a mesh axis ("dp", "tp", …).
using Axis = std::string;

/// One axis and the number of ranks along it.
struct MeshAxis {
  Axis name;
  int size = 1;

  bool operator==(const MeshAxis&) const = default;
};

/// The index of a rank along every axis.
using Coordinates = std::map<Axis, int, std::less<>>;

/// All ranks as a grid of named axes, outermost first. Neighbouring ranks differ in the innermost axis. Example: axes
/// dp=2, tp=4 put rank 6 at dp 1, tp 2.
class STRATA_API Mesh {
 public:
  Mesh() = default;
  /// \throws ConfigurationError if a name is repeated or a size is below 1.
  explicit Mesh(std::vector<MeshAxis> axes);

  [[nodiscard]] const std::vector<MeshAxis>& axes() const { return axes_; }
  /// Number of ranks: the product of all sizes.
  [[nodiscard]] int rank_count() const;
  [[nodiscard]] bool has(const Axis& axis) const;
  /// Number of ranks along `axis`. \throws VerificationError if the mesh has no such axis.
  [[nodiscard]] int size(const Axis& axis) const;
  /// Position of `axis` in mesh order (0 is outermost). \throws VerificationError if the mesh has no such axis.
  [[nodiscard]] int order(const Axis& axis) const;
  /// Product of the sizes of `axes`.
  [[nodiscard]] int size(const std::vector<Axis>& axes) const;

  /// The coordinates of a rank, and the rank at given coordinates.
  [[nodiscard]] Coordinates coordinates(int rank) const;
  [[nodiscard]] int rank(const Coordinates& coordinates) const;
  /// The ranks that differ from `rank` in `axes` only, in mesh order. `rank` is one of them.
  [[nodiscard]] std::vector<int> group(int rank, const std::vector<Axis>& axes) const;

 private:
  std::vector<MeshAxis> axes_;
};

}  // namespace strata

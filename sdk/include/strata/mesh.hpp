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

/// Where a rank stands: its index along every axis.
using Coordinates = std::map<Axis, int, std::less<>>;

/// All ranks as a grid of named axes, outermost first; neighbouring ranks differ in the innermost axis.
class STRATA_API Mesh {
 public:
  Mesh() = default;
  /// \throws ConfigurationError on a repeated name or a size below 1.
  explicit Mesh(std::vector<MeshAxis> axes);

  [[nodiscard]] const std::vector<MeshAxis>& axes() const { return axes_; }
  [[nodiscard]] int rank_count() const;
  [[nodiscard]] bool has(const Axis& axis) const;
  /// Ranks along `axis`. \throws VerificationError if there is no such axis.
  [[nodiscard]] int size(const Axis& axis) const;
  /// Position of `axis` in mesh order (0 is outermost). \throws VerificationError if there is no such axis.
  [[nodiscard]] int order(const Axis& axis) const;
  /// Product of the sizes of `axes`.
  [[nodiscard]] int size(const std::vector<Axis>& axes) const;

  [[nodiscard]] Coordinates coordinates(int rank) const;
  [[nodiscard]] int rank(const Coordinates& coordinates) const;
  /// The ranks that differ from `rank` in `axes` only, in mesh order; `rank` is one of them.
  [[nodiscard]] std::vector<int> group(int rank, const std::vector<Axis>& axes) const;

 private:
  std::vector<MeshAxis> axes_;
};

}  // namespace strata

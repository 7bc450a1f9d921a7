#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/mesh.hpp"
#include "strata/tensor.hpp"

namespace strata {

/// How the pieces of a dimension are dealt to the ranks along an axis.
enum class Distribution : std::uint8_t {
  block,  ///< rank i holds the i-th contiguous piece
  zigzag  ///< of 2n pieces rank i holds the i-th and the (2n-1-i)-th: balances a causal mask
};

/// How a partial value becomes whole.
enum class Reduction : std::uint8_t { sum, max };

STRATA_API std::string_view to_string(Reduction reduction);

/// Decides whether a rule applies: the op's name (empty for a tensor at rest) and its iteration (or the tensor's) dims.
using RuleFilter = std::function<bool(const std::string& op, const Dims& dims)>;

/// Maps a named dimension onto a mesh axis.
struct Rule {
  Dim dim;
  Axis axis;
  /// Rules are walked in ascending priority: the first one that fits takes the axis. Changes cost, never results.
  int priority = 50;
  Distribution distribution = Distribution::block;
  /// Empty: applies everywhere.
  RuleFilter filter;
};

/// For each dimension of a tensor the axes that shard it, outermost first; an empty list is a whole dimension.
using Layout = std::vector<std::vector<Axis>>;
/// For each iteration dimension of an op the axes that shard it.
using IterationLayout = std::map<Dim, std::vector<Axis>, std::less<>>;
/// The axes over which a value is a partial sum (or maximum).
using AxisSet = std::set<Axis>;

/// A run of consecutive indices of a shard and where it lies in the whole dimension.
struct IndexSegment {
  std::int64_t local_begin = 0;
  std::int64_t global_begin = 0;
  std::int64_t length = 0;

  bool operator==(const IndexSegment&) const = default;
};

/// Which global indices a rank holds of a dimension, in local order. The one function that knows zigzag: data loader,
/// position ids, masks, dropout and gathers all use it.
struct STRATA_API IndexMap {
  std::int64_t global_size = 0;
  std::vector<IndexSegment> segments;

  [[nodiscard]] std::int64_t local_size() const;
  /// The global index of a local one. \throws VerificationError if out of range.
  [[nodiscard]] std::int64_t global_index(std::int64_t local) const;
  /// True if the map is one run that starts at 0 and covers the dimension.
  [[nodiscard]] bool is_whole() const;
  /// What remains when this map's indices, in local order, are dealt to `count` ranks and this is rank `index`.
  [[nodiscard]] IndexMap piece(int count, int index, Distribution distribution) const;
  /// The whole dimension.
  static IndexMap whole(std::int64_t size);

  bool operator==(const IndexMap&) const = default;
};

/// The runs of [0, size) that rank `index` of `count` holds.
STRATA_API std::vector<IndexSegment> split_dimension(std::int64_t size, int count, int index,
                                                     Distribution distribution);

/// The rules of all strategies on one mesh: decides every layout.
class STRATA_API LayoutRules {
 public:
  LayoutRules() = default;
  /// Keeps the rules whose axis has more than one rank, sorted by priority (stable).
  LayoutRules(Mesh mesh, DimSizes sizes, std::vector<Rule> rules);

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] const DimSizes& sizes() const { return sizes_; }

  /// Walks the rules for an op (or, with an empty name, a tensor) over `dims`; dims in `whole` are never sharded. An
  /// axis is used at most once; a dimension that its whole axis set does not divide is skipped. Axes nest in mesh
  /// order; those of filtered rules are innermost.
  [[nodiscard]] IterationLayout assign(const std::string& op, const Dims& dims, const std::set<Dim>& whole = {}) const;
  /// The layout in which a tensor of `dims` rests.
  [[nodiscard]] Layout canonical(const Dims& dims) const;

  /// Size of one rank's shard of `dims` under `layout`.
  [[nodiscard]] Shape local_shape(const Dims& dims, const Layout& layout) const;
  /// What the rank at `coordinates` holds of `dim` when `axes` shard it.
  [[nodiscard]] IndexMap index_map(const Dim& dim, const std::vector<Axis>& axes, const Coordinates& coordinates) const;
  [[nodiscard]] Distribution distribution(const Dim& dim, const Axis& axis) const;

 private:
  Mesh mesh_;
  DimSizes sizes_;
  std::vector<Rule> rules_;
  std::map<std::pair<Dim, Axis>, Distribution> distributions_;
};

/// "batch/dp seq embed/tp+cp".
STRATA_API std::string to_string(const Dims& dims, const Layout& layout);

}  // namespace strata

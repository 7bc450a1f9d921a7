#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "strata/export.hpp"
#include "strata/mesh.hpp"
#include "strata/position_mixing.hpp"
#include "strata/tensor.hpp"

namespace strata {

/// How an axis divides a dimension among its ranks.
enum class Distribution : std::uint8_t {
  block,  ///< rank i holds the i-th of n contiguous pieces
  zigzag  ///< rank i holds pieces i and 2n-1-i of 2n, which balances the work under a causal mask
};

/// How the ranks' partial values combine to the whole value.
enum class Reduction : std::uint8_t { sum, max };

STRATA_API std::string_view to_string(Reduction reduction);

/// What a rule may apply to: an op, or a tensor at rest.
struct RuleTarget {
  /// The op's name. Empty for a tensor at rest.
  std::string op = {};
  /// The iteration dims of the op, or the dims of the tensor.
  Dims dims = {};
  /// How the op mixes positions. Null if it does not say so, and for tensors. The caller owns it.
  const PositionMixing* mixing = nullptr;
  /// Name of the op's node (Node::name). Of a tensor at rest: of the parameter, or of the node that makes it. The
  /// caller owns it.
  std::string_view name = {};
};

/// Decides whether a rule applies.
using RuleFilter = std::function<bool(const RuleTarget& target)>;

/// Maps a named dimension onto a mesh axis. Example: {"heads", "tp"} shards the heads over the tensor axis.
struct Rule {
  Dim dim;
  Axis axis;
  /// The rule with the lowest number is considered first, and the first rule that fits takes the axis. Priorities
  /// change cost, never results.
  int priority = 50;
  Distribution distribution = Distribution::block;
  /// Restricts the rule to some ops or tensors. Empty: the rule applies everywhere.
  RuleFilter filter;
};

/// The axes that shard each dimension of a tensor, outermost first. A dimension without axes is whole on every rank.
using Layout = std::vector<std::vector<Axis>>;
/// The axes that shard each iteration dimension of an op, outermost first.
using IterationLayout = std::map<Dim, std::vector<Axis>, std::less<>>;
/// The axes over which a value is partial: a sum (or maximum) over these ranks is still to be taken.
using AxisSet = std::set<Axis>;

/// A dimension that a rule was to divide among the ranks of `axes` together, and that has no multiple of their pieces.
struct Undivided {
  Dim dim;
  std::vector<Axis> axes;   ///< the axes that divide the dimension already, and last the rule's own
  std::int64_t pieces = 1;  ///< the number of pieces in which they would deal the dimension

  auto operator<=>(const Undivided&) const = default;
};

/// A run of consecutive indices that is contiguous both in the shard and in the whole dimension.
struct IndexSegment {
  std::int64_t local_begin = 0;
  std::int64_t global_begin = 0;
  std::int64_t length = 0;

  bool operator==(const IndexSegment&) const = default;
};

/// The global indices of a dimension that one rank holds, in local order. Loader, position ids, masks, dropout and
/// gathers all use it, so no other code knows zigzag. Example: of 8 indices over 2 zigzag ranks, rank 0 holds 0 1 6 7.
struct STRATA_API IndexMap {
  std::int64_t global_size = 0;
  std::vector<IndexSegment> segments;

  /// Number of indices that the rank holds.
  [[nodiscard]] std::int64_t local_size() const;
  /// The global index of the local index `local`. \throws VerificationError if `local` is out of range.
  [[nodiscard]] std::int64_t global_index(std::int64_t local) const;
  /// True if the map is one run that starts at 0 and covers the dimension.
  [[nodiscard]] bool is_whole() const;
  /// Divides this map's indices, in local order, among `count` ranks. \return the part of rank `index`.
  [[nodiscard]] IndexMap piece(int count, int index, Distribution distribution) const;
  /// The map that holds all of a dimension of `size`.
  static IndexMap whole(std::int64_t size);

  bool operator==(const IndexMap&) const = default;
};

/// The runs of [0, size) that rank `index` of `count` ranks holds.
STRATA_API std::vector<IndexSegment> split_dimension(std::int64_t size, int count, int index,
                                                     Distribution distribution);

/// The rules of all strategies on one mesh. It decides every layout.
class STRATA_API LayoutRules {
 public:
  LayoutRules() = default;
  /// Keeps the rules whose axis has more than one rank, sorted by priority, without those that repeat an earlier rule
  /// for all ops. Rules of equal priority keep their order. `mesh`: its axes in the order in which they nest in a
  /// dimension.
  LayoutRules(Mesh mesh, DimSizes sizes, std::vector<Rule> rules);

  /// Its order is that of nesting. Ranks are numbered by the program's mesh.
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] const DimSizes& sizes() const { return sizes_; }

  /// Applies the rules, by priority, to the dims of an op or a tensor.
  /// Dims in `whole` are never sharded. An axis is used at most once. A dimension that the product of its axes does not
  /// divide is skipped, and added to `undivided` (null: nowhere) if no other dimension takes the axis. Axes of one
  /// dimension nest in the order of mesh(), with the axes of filtered rules innermost.
  [[nodiscard]] IterationLayout assign(const RuleTarget& target, const std::set<Dim>& whole = {},
                                       std::set<Undivided>* undivided = nullptr) const;
  /// The layout of a tensor of `dims` at rest. `name`: RuleTarget::name.
  [[nodiscard]] Layout canonical(const Dims& dims, std::string_view name) const;

  /// Shape of one rank's shard, in elements, of a tensor of `dims` under `layout`.
  [[nodiscard]] Shape local_shape(const Dims& dims, const Layout& layout) const;
  /// The indices of `dim` that the rank at `coordinates` holds if `axes` shard it.
  [[nodiscard]] IndexMap index_map(const Dim& dim, const std::vector<Axis>& axes, const Coordinates& coordinates) const;
  /// How `axis` divides `dim`.
  [[nodiscard]] Distribution distribution(const Dim& dim, const Axis& axis) const;

 private:
  Mesh mesh_;
  DimSizes sizes_;
  std::vector<Rule> rules_;
  std::map<Dim, std::vector<std::size_t>> rules_of_;  // by dimension, indices into rules_
  std::map<std::pair<Dim, Axis>, Distribution> distributions_;
};

/// Dimensions with their axes, such as "batch/dp seq embed/tp+cp".
STRATA_API std::string to_string(const Dims& dims, const Layout& layout);

}  // namespace strata

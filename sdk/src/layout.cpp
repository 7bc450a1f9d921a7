#include "strata/layout.hpp"

#include <algorithm>
#include <utility>

#include "strata/error.hpp"

namespace strata {

std::string_view to_string(Reduction reduction) { return reduction == Reduction::sum ? "sum" : "max"; }

LayoutRules::LayoutRules(Mesh mesh, DimSizes sizes, std::vector<Rule> rules)
    : mesh_(std::move(mesh)), sizes_(std::move(sizes)) {
  std::set<std::pair<Dim, Axis>> everywhere;  // of rules without a filter
  std::ranges::stable_sort(rules, {}, &Rule::priority);
  for (Rule& rule : rules) {
    if (mesh_.size(rule.axis) == 1) continue;
    const auto [place, added] = distributions_.try_emplace({rule.dim, rule.axis}, rule.distribution);
    if (!added && place->second != rule.distribution) {
      throw ConfigurationError("two rules deal dimension '" + rule.dim + "' over axis '" + rule.axis +
                               "' in different ways (block and zigzag)");
    }
    // After a rule for all ops, another one for the same dimension and axis decides nothing: the first has taken the
    // axis, or other axes of the dimension left no room for it, which later rules only make less.
    if (everywhere.contains({rule.dim, rule.axis})) continue;
    if (!rule.filter) everywhere.insert({rule.dim, rule.axis});
    rules_of_[rule.dim].push_back(rules_.size());
    rules_.push_back(std::move(rule));
  }
}

Distribution LayoutRules::distribution(const Dim& dim, const Axis& axis) const {
  const auto found = distributions_.find({dim, axis});
  return found == distributions_.end() ? Distribution::block : found->second;
}

IterationLayout LayoutRules::assign(const RuleTarget& target, const std::set<Dim>& whole,
                                    std::set<Undivided>* undivided) const {
  IterationLayout general;         // axes of rules without a filter, which nest in the order of mesh()
  IterationLayout filtered;        // axes of filtered rules, which are innermost
  std::set<std::size_t> possible;  // indices into rules_, which are by priority
  for (const Dim& dim : target.dims) {
    general[dim];
    filtered[dim];
    const auto rules = rules_of_.find(dim);
    if (rules == rules_of_.end() || whole.contains(dim)) continue;
    possible.insert(rules->second.begin(), rules->second.end());
  }
  std::set<Axis> used;
  std::vector<Undivided> skipped;
  for (const std::size_t index : possible) {
    const Rule& rule = rules_[index];
    if (used.contains(rule.axis)) continue;
    if (rule.filter && !rule.filter(target)) continue;
    std::vector<Axis> together = general[rule.dim];
    together.insert(together.end(), filtered[rule.dim].begin(), filtered[rule.dim].end());
    together.push_back(rule.axis);
    std::int64_t pieces = mesh_.size(together);
    for (const Axis& axis : together) {
      if (distribution(rule.dim, axis) == Distribution::zigzag) {
        pieces *= 2;
        break;
      }
    }
    if (sizes_.at(rule.dim) % pieces != 0) {
      if (undivided != nullptr) skipped.push_back({rule.dim, std::move(together), pieces});
      continue;
    }
    (rule.filter ? filtered : general)[rule.dim].push_back(rule.axis);
    used.insert(rule.axis);
  }
  for (Undivided& each : skipped) {
    if (!used.contains(each.axes.back())) undivided->insert(std::move(each));
  }
  for (auto& [dim, axes] : general) {
    std::ranges::sort(axes, [this](const Axis& a, const Axis& b) { return mesh_.order(a) < mesh_.order(b); });
    axes.insert(axes.end(), filtered[dim].begin(), filtered[dim].end());
  }
  return general;
}

Layout LayoutRules::canonical(const Dims& dims, std::string_view name) const {
  const IterationLayout assigned = assign({.dims = dims, .name = name});
  Layout layout;
  for (const Dim& dim : dims) layout.push_back(assigned.at(dim));
  return layout;
}

Shape LayoutRules::local_shape(const Dims& dims, const Layout& layout) const {
  Shape shape = shape_of(dims, sizes_);
  for (std::size_t i = 0; i < dims.size(); ++i) shape[i] /= mesh_.size(layout.at(i));
  return shape;
}

IndexMap LayoutRules::index_map(const Dim& dim, const std::vector<Axis>& axes, const Coordinates& coordinates) const {
  IndexMap map = IndexMap::whole(sizes_.at(dim));
  for (const Axis& axis : axes) map = map.piece(mesh_.size(axis), coordinates.at(axis), distribution(dim, axis));
  return map;
}

std::string to_string(const Dims& dims, const Layout& layout) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    words.push_back(layout.at(i).empty() ? dims[i] : dims[i] + "/" + join(layout[i], "+"));
  }
  return join(words);
}

std::int64_t IndexMap::local_size() const {
  return segments.empty() ? 0 : segments.back().local_begin + segments.back().length;
}

std::int64_t IndexMap::global_index(std::int64_t local) const {
  const auto after = std::ranges::upper_bound(segments, local, {}, &IndexSegment::local_begin);
  if (local < 0 || after == segments.begin() || local >= std::prev(after)->local_begin + std::prev(after)->length) {
    throw VerificationError("index " + std::to_string(local) + " is outside of a shard of " +
                            std::to_string(local_size()));
  }
  const IndexSegment& segment = *std::prev(after);
  return segment.global_begin + (local - segment.local_begin);
}

bool IndexMap::is_whole() const { return *this == whole(global_size); }

IndexMap IndexMap::whole(std::int64_t size) { return {size, {{0, 0, size}}}; }

std::vector<IndexSegment> split_dimension(std::int64_t size, int count, int index, Distribution distribution) {
  if (index < 0 || index >= count)
    throw VerificationError("piece " + std::to_string(index) + " of " + std::to_string(count));
  const std::int64_t pieces = distribution == Distribution::zigzag ? 2 * std::int64_t{count} : count;
  if (size % pieces != 0) {
    throw VerificationError("a dimension of " + std::to_string(size) + " cannot be dealt in " + std::to_string(pieces) +
                            " pieces");
  }
  const std::int64_t length = size / pieces;
  if (distribution == Distribution::block || count == 1) return {{0, index * length, size / count}};
  return {{0, index * length, length}, {length, (pieces - 1 - index) * length, length}};
}

IndexMap IndexMap::piece(int count, int index, Distribution distribution) const {
  IndexMap result{global_size, {}};
  std::int64_t filled = 0;
  for (const IndexSegment& run : split_dimension(local_size(), count, index, distribution)) {
    // A run of the piece may span several segments of this map.
    for (const IndexSegment& segment : segments) {
      const std::int64_t begin = std::max(run.global_begin, segment.local_begin);
      const std::int64_t end = std::min(run.global_begin + run.length, segment.local_begin + segment.length);
      if (begin >= end) continue;
      const std::int64_t global = segment.global_begin + (begin - segment.local_begin);
      const bool continues =
          !result.segments.empty() && result.segments.back().global_begin + result.segments.back().length == global;
      if (continues) {
        result.segments.back().length += end - begin;
      } else {
        result.segments.push_back({filled, global, end - begin});
      }
      filled += end - begin;
    }
  }
  return result;
}

}  // namespace strata

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/cluster.hpp"

namespace strata::host {

/// Unit of a number in messages: "bytes per second", and how a common value is written in it.
struct FieldUnit {
  std::string_view name;
  std::string_view example;
};

/// A number of a table in a cluster file: where it is stored, and which values are physically possible. A forgotten
/// prefix, such as a bandwidth of 450, is outside of them.
template <class Table>
struct NumberField {
  std::string_view name;
  std::variant<int Table::*, std::int64_t Table::*, double Table::*, std::optional<double> Table::*> member;
  FieldUnit unit;
  double least = 0;
  double most = 0;
  /// True if 0 is accepted beside the range.
  bool may_be_zero = false;
  bool is_required = false;
};

/// The numbers of a table, in the order in which they are written. Reading, writing and messages use them. Words, flags
/// and lists are read_cluster.cpp's.
template <class Table>
const std::vector<NumberField<Table>>& number_fields();

template <>
const std::vector<NumberField<ProductTile>>& number_fields();
template <>
const std::vector<NumberField<MeasuredPoint>>& number_fields();
template <>
const std::vector<NumberField<DeviceDescription>>& number_fields();
template <>
const std::vector<NumberField<LinkLevel>>& number_fields();
template <>
const std::vector<NumberField<CollectiveProtocol>>& number_fields();
template <>
const std::vector<NumberField<NodeGroup>>& number_fields();
template <>
const std::vector<NumberField<Cluster>>& number_fields();

/// A number that is no member by itself: an element of a list or of a map.
struct ElementRange {
  FieldUnit unit;
  double least = 0;
  double most = 0;
  bool may_be_zero = false;
};

/// Elements of DeviceDescription::peak_flops, CollectiveProtocol::hops and MeasuredPoint::shape.
extern const ElementRange kPeakRange;
extern const ElementRange kHopRange;
extern const ElementRange kShapeRange;

}  // namespace strata::host

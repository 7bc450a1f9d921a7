#include "operation.hpp"

#include <algorithm>
#include <cstddef>
#include <set>

#include "strata/error.hpp"

namespace strata::communicators {
namespace {

const std::byte* at(const void* data, std::int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

std::int64_t output_elements(const CollectiveCall& call, int size) {
  if (call.kind == CollectiveKind::all_gather) return call.elements * size;
  if (call.kind == CollectiveKind::reduce_scatter) return call.elements / size;
  return call.elements;
}

/// Bytes from `begin` to before `end`.
struct Range {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;

  [[nodiscard]] bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

Range read_by(const CollectiveCall& call) {
  return {at(call.input, 0, call.dtype), at(call.input, call.elements, call.dtype)};
}

Range written_by(const CollectiveCall& call, int size) {
  return {at(call.output, 0, call.dtype), at(call.output, output_elements(call, size), call.dtype)};
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

/// True if peers could read data that this rank overwrites. In-place work is allowed if only this rank reads the data.
bool overlaps(const CollectiveCall& call, int size, int index) {
  const std::byte* input = at(call.input, 0, call.dtype);
  const std::byte* output = at(call.output, 0, call.dtype);
  if (size == 1 || !read_by(call).overlaps(written_by(call, size))) return false;
  switch (call.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
      return input != output;
    case CollectiveKind::all_gather:
      return input != at(call.output, call.elements * index, call.dtype);
    case CollectiveKind::reduce_scatter:
      return output != at(call.input, call.elements / size * index, call.dtype);
    case CollectiveKind::all_to_all:
      return true;
  }
  return true;
}

/// Why the marks of `call` are invalid.
std::string find_misuse(const RowMarks& marks, const CollectiveCall& call, int size) {
  const bool gathers = call.kind == CollectiveKind::all_gather;
  if (!gathers && call.kind != CollectiveKind::reduce_scatter) return "its rows have marks";
  const std::int64_t piece = gathers ? call.elements : call.elements / size;
  if (marks.rows < 1 || marks.marks < 1 || piece % marks.rows != 0) {
    return std::to_string(marks.rows) + " rows with " + std::to_string(marks.marks) + " marks, for " +
           std::to_string(piece) + " elements of a rank";
  }
  return marks.sent == nullptr || marks.received == nullptr ? "no marks given" : "";
}

}  // namespace

int Group::index_of(int rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

Operation::Operation(int rank, const CollectiveCall& call)
    : rank(rank), name(call.name != nullptr ? *call.name : ""), call(call) {}

Operation::Operation(Kind kind, int rank, const MessageCall& message)
    : kind(kind), rank(rank), name(message.name != nullptr ? *message.name : ""), message(message) {}

std::string describe(const Operation& operation) {
  const auto named = [&](const std::string& what, std::uint64_t id) {
    return what + " '" + operation.name + "' (id " + std::to_string(id) + ")";
  };
  const MessageCall& message = operation.message;
  switch (operation.kind) {
    case Operation::Kind::collective:
      return named(std::string(to_string(operation.call.kind)), operation.call.id);
    case Operation::Kind::send:
      return named("send", message.id) + " to rank " + std::to_string(message.peer);
    case Operation::Kind::receive:
      return named("receive", message.id) + " from rank " + std::to_string(message.peer);
  }
  return {};
}

std::string fault_text(const Operation& operation, const std::string& why) {
  return "rank " + std::to_string(operation.rank) + ": " + describe(operation) + ": " + why;
}

std::string find_misuse(const CollectiveCall& call, int size, int index) {
  const std::string elements = std::to_string(call.elements) + " elements";
  if (call.elements < 0) return elements;
  const bool pieces = call.kind == CollectiveKind::reduce_scatter || call.kind == CollectiveKind::all_to_all;
  if (pieces && call.elements % size != 0) return elements + " do not divide among " + std::to_string(size) + " ranks";
  if (call.kind == CollectiveKind::broadcast && (call.root < 0 || call.root >= size)) {
    return "root " + std::to_string(call.root) + " is not in a group of " + std::to_string(size);
  }
  if (call.elements > 0 && (call.input == nullptr || call.output == nullptr)) return "no memory given";
  if (overlaps(call, size, index)) return "input and output overlap";
  return call.marks ? find_misuse(*call.marks, call, size) : "";
}

std::string describe_contents(const CollectiveCall& call) {
  std::string text(to_string(call.kind));
  if (reduces(call.kind)) text += " " + std::string(to_string(call.reduction));
  text += " of " + std::to_string(call.elements) + " " + std::string(to_string(call.dtype));
  if (call.kind == CollectiveKind::broadcast) text += " from root " + std::to_string(call.root);
  if (call.marks) text += " with " + std::to_string(call.marks->marks) + " marks per row";
  return text;
}

bool agree(const CollectiveCall& left, const CollectiveCall& right) {
  const auto marks = [](const CollectiveCall& call) { return call.marks ? call.marks->marks : 0; };
  return marks(left) == marks(right) && left.kind == right.kind && left.dtype == right.dtype &&
         left.elements == right.elements && (!reduces(left.kind) || left.reduction == right.reduction) &&
         (left.kind != CollectiveKind::broadcast || left.root == right.root);
}

bool conflict(const CollectiveCall& one, int size, const CollectiveCall& other, int other_size) {
  const Range written = written_by(one, size);
  const Range other_written = written_by(other, other_size);
  return written.overlaps(read_by(other)) || written.overlaps(other_written) || read_by(one).overlaps(other_written);
}

void require_group(const std::vector<int>& ranks, int rank, int rank_count) {
  const bool known = std::all_of(ranks.begin(), ranks.end(), [&](int r) { return r >= 0 && r < rank_count; });
  const bool once = std::set<int>(ranks.begin(), ranks.end()).size() == ranks.size();
  if (known && once && contains(ranks, rank)) return;
  throw RuntimeError("rank " + std::to_string(rank) + ": no group can be made of ranks " + rank_list(ranks) +
                     ": it needs every rank once, this one among them, out of " + std::to_string(rank_count));
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return "[" + text + "]";
}

}  // namespace strata::communicators

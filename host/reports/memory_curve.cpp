#include "reports/memory_curve.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "compiler/memory/memory_packing.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/short_schedule.hpp"
#include "files/text_format.hpp"
#include "reports/drawing.hpp"

namespace strata::host {
namespace {

/// Bytes by kind and moment, as differences to the moment before.
using MemoryChanges = std::map<BufferKind, std::vector<std::int64_t>>;

MemoryChanges memory_changes(const Program& program, std::size_t moments) {
  MemoryChanges changes;
  const auto of_kind = [&](BufferKind kind) -> std::vector<std::int64_t>& {
    return changes.try_emplace(kind, std::vector<std::int64_t>(moments + 1)).first->second;
  };
  for (const Buffer& buffer : program.buffers) {
    if (buffer.base < 0 && buffer.persistent && buffer.place == MemoryPlace::device) {
      of_kind(buffer.kind).front() += buffer.bytes();
    }
  }
  const BufferRanges ranges(program);
  for (const Lifetime& each : buffer_lifetimes(program, ranges)) {
    std::vector<std::int64_t>& kind = of_kind(program.buffer(ranges.root_of_instance(each.instance)).kind);
    kind[static_cast<std::size_t>(each.begin)] += each.bytes;
    kind[std::min(static_cast<std::size_t>(each.end) + 1, moments)] -= each.bytes;
  }
  return changes;
}

/// Turns differences into sums, and returns the totals of all moments.
std::vector<std::int64_t> sum_up(MemoryChanges& changes, std::size_t moments) {
  std::vector<std::int64_t> totals(moments);
  for (auto& [kind, bytes] : changes) {
    for (std::size_t i = 0; i < moments; ++i) {
      if (i > 0) bytes[i] += bytes[i - 1];
      totals[i] += bytes[i];
    }
  }
  return totals;
}

constexpr double kMemoryWidth = 860;
constexpr double kMemoryLeft = 96;
constexpr double kMemoryRight = kMemoryWidth - 24;
constexpr double kPanelHeight = 120;
constexpr double kPanelPitch = 160;
constexpr double kPanelsTop = 70;
constexpr double kMemoryText = 12;

/// Colours of kinds in the order of BufferKind, by Okabe and Ito (2008).
constexpr std::array<const char*, 7> kKindColours = {"#0072b2", "#d55e00", "#009e73", "#e69f00",
                                                     "#cc79a7", "#56b4e9", "#999999"};

const char* kind_colour(BufferKind kind) { return kKindColours.at(static_cast<std::size_t>(kind)); }

constexpr const char* kMemoryStyle = R"(  .label { font-size: 12px; fill: #4d5259 }
  .end { text-anchor: end }
  .frame { fill: none; stroke: #9aa1a9; stroke-width: 1 }
  .limit { stroke: #c00000; stroke-width: 1.4; stroke-dasharray: 6 3 }
)";
constexpr const char* kMemoryDarkStyle = R"(    .label { fill: #aab1b9 }
    .frame { stroke: #5b626b }
    .limit { stroke: #ff7b72 }
)";

class MemoryDrawing {
 public:
  MemoryDrawing(const std::vector<RankMemory>& ranks, std::int64_t limit)
      : ranks_(ranks),
        limit_(limit),
        picture_(kMemoryWidth, kPanelsTop + kPanelPitch * static_cast<double>(ranks.size()), "memory over the step",
                 kMemoryStyle, kMemoryDarkStyle) {
    for (const RankMemory& each : ranks) most_ = std::max(most_, static_cast<double>(each.memory.peak()));
    // A device that is far larger than the step would leave no room for it.
    if (static_cast<double>(limit) < 3 * most_) most_ = std::max(most_, static_cast<double>(limit));
  }

  std::string draw() {
    legend();
    for (std::size_t i = 0; i < ranks_.size(); ++i) panel(ranks_[i], kPanelsTop + kPanelPitch * static_cast<double>(i));
    return picture_.finish();
  }

 private:
  void legend() {
    std::set<BufferKind> kinds;
    for (const RankMemory& each : ranks_) {
      for (const auto& [kind, bytes] : each.memory.kinds) kinds.insert(kind);
    }
    double x = kMemoryLeft;
    for (const BufferKind kind : kinds) {
      picture_.out() << R"(<rect x=")" << x << R"(" y="18" width="12" height="12" fill=")" << kind_colour(kind)
                     << "\"/>\n";
      picture_.text(x + 18, 29, "ink", to_string(kind));
      x += 40 + text_width(to_string(kind), kMemoryText + 2);
    }
  }

  void panel(const RankMemory& rank, double top) {
    const double bottom = top + kPanelHeight;
    picture_.text(kMemoryLeft, top - 6, "label",
                  rank.name + ": at most " + short_bytes(rank.memory.peak()) + " at once");
    std::vector<std::int64_t> below(rank.memory.moments.size());
    for (const auto& [kind, bytes] : rank.memory.kinds) area(rank.memory, kind, below, bottom);
    picture_.out() << R"(<rect class="frame" x=")" << kMemoryLeft << R"(" y=")" << top << R"(" width=")"
                   << kMemoryRight - kMemoryLeft << R"(" height=")" << kPanelHeight << "\"/>\n";
    picture_.text(kMemoryLeft - 8, bottom, "label end", "0");
    picture_.text(kMemoryLeft - 8, top + 10, "label end", short_bytes(static_cast<std::int64_t>(most_)));
    picture_.text(kMemoryRight, bottom + 16, "label end", std::to_string(rank.memory.instructions) + " instructions");
    if (limit_ > 0 && static_cast<double>(limit_) <= most_) {
      const double y = height_of(static_cast<double>(limit_), bottom);
      picture_.out() << R"(<line class="limit" x1=")" << kMemoryLeft << R"(" y1=")" << y << R"(" x2=")" << kMemoryRight
                     << R"(" y2=")" << y << "\"/>\n";
    }
  }

  [[nodiscard]] double height_of(double bytes, double bottom) const {
    return bottom - kPanelHeight * bytes / std::max(most_, 1.0);
  }

  /// Draws a kind on top of those below, and adds it to them.
  void area(const MemoryCurve& memory, BufferKind kind, std::vector<std::int64_t>& below, double bottom) {
    const double scale = (kMemoryRight - kMemoryLeft) / std::max(memory.instructions, 1);
    const auto point = [&](std::size_t i) {
      picture_.out() << kMemoryLeft + scale * memory.moments[i] << ','
                     << height_of(static_cast<double>(below[i]), bottom) << ' ';
    };
    picture_.out() << R"(<polygon fill=")" << kind_colour(kind) << R"(" points=")";
    for (std::size_t i = below.size(); i-- > 0;) point(i);
    for (std::size_t i = 0; i < below.size(); ++i) {
      below[i] += memory.kinds.at(kind)[i];
      point(i);
    }
    picture_.out() << "\"/>\n";
  }

  const std::vector<RankMemory>& ranks_;
  std::int64_t limit_;
  double most_ = 0;
  SvgPicture picture_;
};

}  // namespace

std::int64_t MemoryCurve::total(std::size_t moment) const {
  std::int64_t sum = 0;
  for (const auto& [kind, bytes] : kinds) sum += bytes.at(moment);
  return sum;
}

std::int64_t MemoryCurve::peak() const {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < moments.size(); ++i) most = std::max(most, total(i));
  return most;
}

MemoryCurve memory_curve(const Program& program, int moments) {
  const int superfluous = superfluous_micro_batches({&program}, 2);
  const Program whole = superfluous > 0 ? shortened(program, superfluous) : program;
  std::size_t count = 0;
  for_each_instruction(whole, [&](const auto&, std::size_t, const auto&) { ++count; });
  MemoryChanges changes = memory_changes(whole, count);
  const std::vector<std::int64_t> totals = sum_up(changes, count);
  MemoryCurve memory;
  memory.instructions = static_cast<int>(count);
  const std::size_t width = std::max<std::size_t>(
      1, (count + static_cast<std::size_t>(moments) - 1) / static_cast<std::size_t>(std::max(moments, 1)));
  for (std::size_t begin = 0; begin < count; begin += width) {
    const auto first = totals.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = totals.begin() + static_cast<std::ptrdiff_t>(std::min(begin + width, count));
    memory.moments.push_back(static_cast<int>(std::max_element(first, last) - totals.begin()));
  }
  for (const auto& [kind, bytes] : changes) {
    for (const int moment : memory.moments) memory.kinds[kind].push_back(bytes[static_cast<std::size_t>(moment)]);
  }
  return memory;
}

std::string memory_chart(const std::vector<RankMemory>& ranks, std::int64_t limit) {
  return MemoryDrawing(ranks, limit).draw();
}

}  // namespace strata::host

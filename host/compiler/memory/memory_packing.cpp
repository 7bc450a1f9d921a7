#include "compiler/memory/memory_packing.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace strata::host {
namespace {

/// Placed blocks that first fit inspects before it gives up, which bounds the time for very large programs.
constexpr std::int64_t kLooksPerAttempt = 600'000'000;

std::int64_t round_up(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// The time from the first use to the last.
MemoryBlock::Span hull(const MemoryBlock& block) { return {block.spans.front().begin, block.spans.back().end}; }

bool overlap(const MemoryBlock& a, const MemoryBlock& b) {
  auto of_a = a.spans.begin();
  auto of_b = b.spans.begin();
  while (of_a != a.spans.end() && of_b != b.spans.end()) {
    if (of_a->end < of_b->begin) {
      ++of_a;
    } else if (of_b->end < of_a->begin) {
      ++of_b;
    } else {
      return true;
    }
  }
  return false;
}

std::int64_t height(const std::vector<MemoryBlock>& blocks, const std::vector<std::int64_t>& offsets) {
  std::int64_t highest = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) highest = std::max(highest, offsets[i] + blocks[i].bytes);
  return highest;
}

/// An online allocator that knows only sizes: walks through time and takes the smallest free piece that is large
/// enough. A block keeps its piece from its first use to its last.
class BestFit {
 public:
  BestFit(const std::vector<MemoryBlock>& blocks, std::int64_t alignment) : blocks_(blocks), alignment_(alignment) {}

  std::vector<std::int64_t> run() {
    std::vector<std::int64_t> offsets(blocks_.size(), 0);
    std::multimap<int, std::size_t> ends;
    for (const std::size_t i : in_time_order()) {
      while (!ends.empty() && ends.begin()->first < hull(blocks_[i]).begin) {
        const std::size_t ended = ends.begin()->second;
        give_back(offsets[ended], round_up(blocks_[ended].bytes, alignment_));
        ends.erase(ends.begin());
      }
      offsets[i] = take(round_up(blocks_[i].bytes, alignment_));
      ends.emplace(hull(blocks_[i]).end, i);
    }
    return offsets;
  }

 private:
  [[nodiscard]] std::vector<std::size_t> in_time_order() const {
    std::vector<std::size_t> order(blocks_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [this](std::size_t a, std::size_t b) {
      const int begin_of_a = hull(blocks_[a]).begin;
      const int begin_of_b = hull(blocks_[b]).begin;
      return begin_of_a != begin_of_b ? begin_of_a < begin_of_b : blocks_[a].bytes > blocks_[b].bytes;
    });
    return order;
  }

  std::int64_t take(std::int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) {
      const auto [size, offset] = *fit;
      remove(offset, size);
      if (size > bytes) add(offset + bytes, size - bytes);
      return offset;
    }
    std::int64_t offset = top_;  // grow, including a free piece at the top
    if (!free_.empty() && free_.rbegin()->first + free_.rbegin()->second == top_) {
      offset = free_.rbegin()->first;
      remove(offset, free_.rbegin()->second);
    }
    top_ = offset + bytes;
    return offset;
  }

  void give_back(std::int64_t offset, std::int64_t bytes) {
    const auto after = free_.lower_bound(offset);
    if (after != free_.end() && after->first == offset + bytes) {
      const std::int64_t more = after->second;
      remove(after->first, more);
      bytes += more;
    }
    const auto next = free_.lower_bound(offset);
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
      const auto [begin, more] = *std::prev(next);
      remove(begin, more);
      offset = begin;
      bytes += more;
    }
    add(offset, bytes);
  }

  void add(std::int64_t offset, std::int64_t bytes) {
    free_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }

  void remove(std::int64_t offset, std::int64_t bytes) {
    free_.erase(offset);
    by_size_.erase({bytes, offset});
  }

  const std::vector<MemoryBlock>& blocks_;
  std::int64_t alignment_;
  std::map<std::int64_t, std::int64_t> free_;
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;
  std::int64_t top_ = 0;
};

/// Places blocks in a given order. Each block goes to the lowest offset at which it does not overlap blocks that are
/// needed at the same time.
class FirstFit {
 public:
  FirstFit(const std::vector<MemoryBlock>& blocks, std::int64_t alignment) : blocks_(blocks), alignment_(alignment) {}

  /// The offsets, or empty if it takes more than `most_looks`.
  std::optional<std::vector<std::int64_t>> run(const std::vector<std::size_t>& order, std::int64_t most_looks) {
    std::vector<std::int64_t> offsets(blocks_.size(), 0);
    for (const std::size_t i : order) {
      offsets[i] = lowest_fit(blocks_[i]);
      insert({offsets[i], offsets[i] + round_up(blocks_[i].bytes, alignment_), hull(blocks_[i]), &blocks_[i]});
      if (looks_ > most_looks) return std::nullopt;
    }
    return offsets;
  }

 private:
  struct Placed {
    std::int64_t offset = 0;
    std::int64_t offset_end = 0;
    MemoryBlock::Span time;
    const MemoryBlock* block = nullptr;
  };
  /// Placed blocks in ascending order of offset, with the time span that they cover.
  struct Chunk {
    std::vector<Placed> blocks;
    MemoryBlock::Span time;
  };
  static constexpr std::size_t kChunk = 256;

  std::int64_t lowest_fit(const MemoryBlock& block) {
    std::int64_t low = 0;
    const MemoryBlock::Span time = hull(block);
    for (const Chunk& chunk : chunks_) {
      ++looks_;
      if (chunk.time.begin > time.end || chunk.time.end < time.begin) continue;
      for (const Placed& placed : chunk.blocks) {
        if (placed.time.begin > time.end || placed.time.end < time.begin) continue;
        const bool is_once = placed.block->spans.size() == 1 && block.spans.size() == 1;
        if (!is_once && !overlap(*placed.block, block)) continue;
        if (placed.offset - low >= block.bytes) return low;
        low = std::max(low, placed.offset_end);
      }
      looks_ += static_cast<std::int64_t>(chunk.blocks.size());
    }
    return low;
  }

  void insert(const Placed& placed) {
    auto chunk =
        std::upper_bound(chunks_.begin(), chunks_.end(), placed.offset,
                         [](std::int64_t offset, const Chunk& each) { return offset < each.blocks.front().offset; });
    if (chunks_.empty()) {
      chunks_.push_back({{placed}, placed.time});
      return;
    }
    if (chunk != chunks_.begin()) --chunk;
    const auto at = std::ranges::upper_bound(chunk->blocks, placed.offset, {}, &Placed::offset);
    chunk->blocks.insert(at, placed);
    extend(chunk->time, placed);
    if (chunk->blocks.size() > kChunk) split(static_cast<std::size_t>(chunk - chunks_.begin()));
  }

  void split(std::size_t index) {
    std::vector<Placed>& blocks = chunks_[index].blocks;
    const auto middle = blocks.begin() + static_cast<std::ptrdiff_t>(blocks.size() / 2);
    Chunk upper{{middle, blocks.end()}, {}};
    blocks.erase(middle, blocks.end());
    measure(chunks_[index]);
    measure(upper);
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(upper));
  }

  static void measure(Chunk& chunk) {
    chunk.time = chunk.blocks.front().time;
    for (const Placed& placed : chunk.blocks) extend(chunk.time, placed);
  }

  static void extend(MemoryBlock::Span& time, const Placed& placed) {
    time.begin = std::min(time.begin, placed.time.begin);
    time.end = std::max(time.end, placed.time.end);
  }

  const std::vector<MemoryBlock>& blocks_;
  std::int64_t alignment_;
  std::vector<Chunk> chunks_;
  std::int64_t looks_ = 0;
};

/// Block numbers in descending order of weight.
std::vector<std::size_t> by_weight(const std::vector<MemoryBlock>& blocks,
                                   const std::function<double(const MemoryBlock&)>& weight) {
  std::vector<double> weights;
  weights.reserve(blocks.size());
  for (const MemoryBlock& block : blocks) weights.push_back(weight(block));
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  return order;
}

/// Instructions during which one instance is alive.
double duration(const MemoryBlock& block) { return block.spans.front().end - block.spans.front().begin; }

/// Bytes that any packing needs.
std::int64_t lower_bound(const std::vector<MemoryBlock>& blocks, std::int64_t alignment) {
  std::vector<Lifetime> lifetimes;
  for (const MemoryBlock& block : blocks) {
    for (const MemoryBlock::Span& span : block.spans) lifetimes.push_back({block.bytes, span.begin, span.end, 0});
  }
  return find_peak(lifetimes, alignment).bytes - alignment;
}

}  // namespace

MemoryPeak find_peak(const std::vector<Lifetime>& lifetimes, std::int64_t alignment) {
  int end = 0;
  for (const Lifetime& each : lifetimes) end = std::max(end, each.end + 1);
  std::vector<std::int64_t> change(static_cast<std::size_t>(end) + 1);  // by moment
  for (const Lifetime& each : lifetimes) {
    change[static_cast<std::size_t>(each.begin)] += round_up(each.bytes, alignment);
    change[static_cast<std::size_t>(each.end) + 1] -= round_up(each.bytes, alignment);
  }
  std::int64_t now = 0;
  MemoryPeak peak;
  for (int moment = 0; moment <= end; ++moment) {
    now += change[static_cast<std::size_t>(moment)];
    if (now > peak.bytes) peak = {moment, now};
  }
  return peak;
}

MemoryPacking pack_memory(const std::vector<MemoryBlock>& blocks, std::int64_t alignment, PackingEffort effort) {
  if (effort == PackingEffort::none) {
    return {std::vector<std::int64_t>(blocks.size()), lower_bound(blocks, alignment)};
  }
  MemoryPacking best{BestFit(blocks, alignment).run(), 0};
  best.bytes = height(blocks, best.offsets);
  const std::int64_t bound = lower_bound(blocks, alignment);
  const std::function<double(const MemoryBlock&)> weights[] = {
      [](const MemoryBlock& block) { return static_cast<double>(block.bytes); },
      [](const MemoryBlock& block) { return static_cast<double>(block.bytes) * (duration(block) + 1); },
      duration,
  };
  // Best fit does not see that blocks take turns, so one attempt of first fit must succeed then.
  const bool take_turns = std::ranges::any_of(blocks, [](const auto& each) { return each.spans.size() > 1; });
  std::int64_t most_looks = take_turns ? std::numeric_limits<std::int64_t>::max() : kLooksPerAttempt;
  const bool is_quick = effort == PackingEffort::quick;
  if (is_quick && !take_turns) return best;
  for (const auto& weight : weights) {
    if (best.bytes <= bound) break;  // equals the lower bound
    const auto offsets = FirstFit(blocks, alignment).run(by_weight(blocks, weight), most_looks);
    if (!offsets) break;
    most_looks = kLooksPerAttempt;
    const std::int64_t bytes = height(blocks, *offsets);
    if (bytes < best.bytes) best = {*offsets, bytes};
    if (is_quick) break;
  }
  return best;
}

}  // namespace strata::host

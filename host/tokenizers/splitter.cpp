#include "tokenizers/splitter.hpp"

#include <array>
#include <utility>

namespace strata::host {
namespace {

/// Appends parts from left to right, and joins a part to the one before it as the behavior says.
class PartJoiner {
 public:
  PartJoiner(const WordRange& word, SplitBehavior behavior, std::vector<WordRange>& result)
      : word_(word), behavior_(behavior), result_(result), first_(result.size()) {}

  void add(std::size_t begin, std::size_t end, bool separates) {
    const bool has_previous = result_.size() > first_;
    bool join = false;
    bool removed = false;
    switch (behavior_) {
      case SplitBehavior::removed:
        removed = separates;
        break;
      case SplitBehavior::isolated:
        break;
      case SplitBehavior::merged_with_previous:
        join = separates && !previous_separates_;
        break;
      case SplitBehavior::merged_with_next:
        // A separator that follows a separator stands alone, unless words follow.
        join = !separates && previous_separates_;
        break;
      case SplitBehavior::contiguous:
        join = separates == previous_separates_;
        break;
    }
    previous_separates_ = separates;
    if (removed) return;
    if (join && has_previous) {
      result_.back().end = word_.begin + end;
    } else if (begin < end) {
      result_.push_back({word_.begin + begin, word_.begin + end, word_.is_first && begin == 0});
    }
  }

 private:
  const WordRange& word_;
  SplitBehavior behavior_;
  std::vector<WordRange>& result_;
  std::size_t first_;
  bool previous_separates_ = false;
};

}  // namespace

void split_word(const WordRange& word, const std::vector<TextRange>& matches, SplitBehavior behavior, bool inverted,
                std::vector<WordRange>& result) {
  PartJoiner parts(word, behavior, result);
  std::size_t done = 0;
  for (const TextRange& match : matches) {
    if (match.begin != done) parts.add(done, match.begin, inverted);
    parts.add(match.begin, match.end, !inverted);
    done = match.end;
  }
  const std::size_t size = word.end - word.begin;
  if (done != size) parts.add(done, size, inverted);
}

SplitBehavior read_split_behavior(const JsonValue& value) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames{{
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  }};
  const std::string name = value.string();
  for (const auto& [each, behavior] : kNames) {
    if (name == each) return behavior;
  }
  value.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

}  // namespace strata::host

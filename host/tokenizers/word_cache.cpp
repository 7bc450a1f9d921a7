#include "tokenizers/word_cache.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace strata::host {
namespace {

constexpr std::size_t kSlots = std::size_t{1} << 16U;
constexpr std::size_t kMostWords = kSlots / 2;
/// Longer words are seldom seen twice.
constexpr std::size_t kLongestWord = 64;

}  // namespace

WordCache::WordCache() : slots_(kSlots) {}

void WordCache::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  used_ = 0;
  texts_.clear();
  tokens_.clear();
}

std::optional<std::span<const std::int32_t>> WordCache::find(std::string_view word) {
  if (word.size() > kLongestWord) return std::nullopt;
  hash_ = XXH3_64bits(word.data(), word.size());
  position_ = hash_ & (kSlots - 1);
  for (;; position_ = (position_ + 1) & (kSlots - 1)) {
    const Slot& slot = slots_[position_];
    // A free slot has no text.
    if (slot.text_bytes == 0) return std::nullopt;
    if (slot.hash == hash_ && slot.text_bytes == word.size() &&
        std::memcmp(texts_.data() + slot.text, word.data(), word.size()) == 0) {
      return std::span(tokens_.data() + slot.tokens, slot.token_count);
    }
  }
}

void WordCache::add(std::string_view word, std::span<const std::int32_t> tokens) {
  if (word.empty() || word.size() > kLongestWord || tokens.size() > UINT16_MAX) return;
  if (used_ == kMostWords) {
    clear();
    position_ = hash_ & (kSlots - 1);
  }
  slots_[position_] = {hash_, static_cast<std::uint32_t>(texts_.size()), static_cast<std::uint32_t>(tokens_.size()),
                       static_cast<std::uint16_t>(word.size()), static_cast<std::uint16_t>(tokens.size())};
  texts_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++used_;
}

}  // namespace strata::host

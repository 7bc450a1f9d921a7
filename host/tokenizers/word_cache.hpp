#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// Keeps the tokens of words. A full cache forgets all of them. Not thread-safe: each thread has one.
class WordCache {
 public:
  WordCache();

  /// The tokens of a word, or null if the cache has not got it.
  [[nodiscard]] std::optional<std::span<const std::int32_t>> find(std::string_view word);
  /// Adds the word that find() has just missed.
  void add(std::string_view word, std::span<const std::int32_t> tokens);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t text = 0;
    std::uint32_t tokens = 0;
    std::uint16_t text_bytes = 0;
    std::uint16_t token_count = 0;
  };

  void clear();

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::string texts_;
  std::vector<std::int32_t> tokens_;
  /// Of the word that find() has missed last.
  std::uint64_t hash_ = 0;
  std::size_t position_ = 0;
};

}  // namespace strata::host

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// The replacements of a sentencepiece normalizer: a double-array trie (Darts-clone) and the texts that it refers to.
class Charsmap {
 public:
  /// \param bytes The value of `precompiled_charsmap`. \throws ConfigurationError, whose message has no file, if the
  /// map refers to what it does not have.
  explicit Charsmap(std::string_view bytes);
  /// tokenizer.json has the same in base64.
  [[nodiscard]] static Charsmap of_base64(std::string_view text);

  /// Replaces graphemes and code points as Hugging Face's Precompiled normalizer does.
  [[nodiscard]] std::string replace(std::string_view text) const;

 private:
  void check() const;
  [[nodiscard]] std::optional<std::string_view> replacement(std::string_view part) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace strata::host

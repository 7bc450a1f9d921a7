#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "files/json_value.hpp"

namespace strata::host {

/// The texts of tokens by number, and back. It never changes, since the index refers to the texts.
class VocabularyTexts {
 public:
  /// An empty text is no token. Of equal texts, the last has the number, as in Hugging Face's library.
  explicit VocabularyTexts(std::vector<std::string> texts) : VocabularyTexts{texts.size(), std::move(texts)} {}
  /// \param count Number of tokens, if some numbers have none.
  VocabularyTexts(std::size_t count, std::vector<std::string> texts) : count_(count), texts_(std::move(texts)) {
    index_.reserve(texts_.size());
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (!texts_[i].empty()) index_.insert_or_assign(texts_[i], static_cast<std::int32_t>(i));
    }
  }
  VocabularyTexts(VocabularyTexts&&) noexcept = default;
  VocabularyTexts& operator=(VocabularyTexts&&) = delete;
  ~VocabularyTexts() = default;

  /// Reads `{"TEXT": NUMBER, …}`.
  [[nodiscard]] static VocabularyTexts read_object(const JsonValue& value);

  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  /// Number of tokens that the file lists.
  [[nodiscard]] std::size_t count() const { return count_; }
  /// The number of a text, or -1.
  [[nodiscard]] std::int32_t find(std::string_view text) const {
    const auto found = index_.find(text);
    return found == index_.end() ? -1 : found->second;
  }

 private:
  std::size_t count_ = 0;
  std::vector<std::string> texts_;
  std::unordered_map<std::string_view, std::int32_t> index_;
};

}  // namespace strata::host

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/vocabulary.hpp"

namespace strata::host {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// \throws ConfigurationError that names the text that cannot be encoded, and its position.
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// \throws RuntimeError if a token is outside of the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
};

[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace strata::host

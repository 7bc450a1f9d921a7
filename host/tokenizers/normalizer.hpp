#pragma once

#include <memory>
#include <string>

#include "files/json_value.hpp"
#include "tokenizers/pattern.hpp"

namespace strata::host {

/// Changes a text before it is cut into words. Immutable, so threads share it.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// The normal form of `text`, which is valid UTF-8, and so is the result.
  [[nodiscard]] virtual std::string apply(std::string text, PatternMemory& memory) const = 0;
  /// False if the normal form leaves the first character of `text` out. Then it does not begin where the text begins.
  [[nodiscard]] virtual bool keeps_beginning(std::string text, PatternMemory& memory) const = 0;
};

/// Reads `normalizer` of a tokenizer.json. \throws ConfigurationError that names the key that it does not accept.
[[nodiscard]] std::unique_ptr<const Normalizer> read_normalizer(const JsonValue& value);

/// Reads `{"String": "…"}` or `{"Regex": "…"}`.
[[nodiscard]] Pattern read_pattern(const JsonValue& value);

}  // namespace strata::host

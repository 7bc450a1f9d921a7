#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "files/json_value.hpp"

namespace strata::host {

/// Turns the texts of tokens into the text that they stand for, by the `decoder` of a tokenizer.json.
class TokenDecoder {
 public:
  /// Without a decoder, spaces separate the texts, as Hugging Face does.
  explicit TokenDecoder(const std::optional<JsonValue>& value);
  [[nodiscard]] std::string decode(std::vector<std::string> texts) const;

 private:
  /// One step of a decoder, which changes the list of texts.
  using Step = std::function<void(std::vector<std::string>& texts)>;
  static Step read_step(const JsonValue& value);

  bool separates_ = false;
  std::vector<Step> steps_;
};

}  // namespace strata::host

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "strata/error.hpp"
#include "tokenizers/text_tokenizer.hpp"

/// Prints the tokens of each text of a JSON lines file, with special tokens as tokens and as text, and the texts that
/// the tokens decode to, for a comparison with other programs. Usage: tokenizer_answers TOKENIZER TEXTS.jsonl
/// ANSWERS.jsonl
int main(int argument_count, char** arguments) {
  using nlohmann::json;
  if (argument_count != 4) return 2;
  try {
    const auto tokenizer = strata::host::load_tokenizer(arguments[1]);
    const auto encoder = tokenizer->make_encoder(strata::host::SpecialInText::token);
    const auto text_encoder = tokenizer->make_encoder(strata::host::SpecialInText::text);
    std::ifstream texts(arguments[2]);
    std::ofstream answers(arguments[3]);
    answers << json{{"size", tokenizer->size()}, {"first", tokenizer->frame().first}, {"last", tokenizer->frame().last}}
            << '\n';
    for (std::string line; std::getline(texts, line);) {
      std::vector<std::int32_t> tokens;
      std::vector<std::int32_t> as_text;
      const auto text = json::parse(line).get<std::string>();
      encoder->append(text, tokens);
      text_encoder->append(text, as_text);
      answers << json{{"tokens", tokens},
                      {"as_text", as_text},
                      {"all", tokenizer->decode_text(tokens, true)},
                      {"plain", tokenizer->decode_text(tokens, false)}}
              << '\n';
    }
    return answers.flush() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

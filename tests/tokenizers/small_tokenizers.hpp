#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tokenizers/byte_alphabet.hpp"

namespace strata::testing {

/// A tokenizer.json as GPT-2's: a token for each byte, with the byte's number, then "th", "the", " the" and
/// "<|endoftext|>".
inline nlohmann::json small_byte_level() {
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string letter;
    const char value = static_cast<char>(byte);
    host::append_byte_letters(letter, {&value, 1});
    vocab[letter] = byte;
  }
  vocab["th"] = 256;
  vocab["the"] = 257;
  vocab["Ġthe"] = 258;
  return {{"added_tokens", {{{"id", 259}, {"content", "<|endoftext|>"}, {"special", true}}}},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"},
               {"pattern", {{"Regex", R"((?i:'s)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\S|\s)"}}},
               {"behavior", "Isolated"}},
              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<|endoftext|>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
            {"special_tokens", {{"<|endoftext|>", {{"ids", {259}}}}}}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"t h", "th e", "Ġ the"}}}}};
}

/// A tokenizer.json as T5's: Unigram with marks before words.
inline nlohmann::json small_unigram() {
  nlohmann::json vocab = nlohmann::json::array(
      {nlohmann::json::array({"<unk>", 0.0}), nlohmann::json::array({"▁", -2.0}), nlohmann::json::array({"▁the", -3.0}),
       nlohmann::json::array({"t", -4.0}), nlohmann::json::array({"he", -4.5}), nlohmann::json::array({"h", -5.0}),
       nlohmann::json::array({"e", -5.0})});
  for (unsigned byte = 0; byte < 256; ++byte)
    vocab.push_back(nlohmann::json::array({host::byte_token_name(byte), -9.0}));
  return {{"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "NFKC"}}, {{"type", "Replace"}, {"pattern", {{"String", "  "}}}, {"content", " "}}}}}},
          {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Metaspace"}, {"replacement", "▁"}}}}}},
          {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", true}, {"vocab", vocab}}}};
}

}  // namespace strata::testing

#include <utility>

#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/text_steps.hpp"
#include "tokenizers/token_model.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// One step of a decoder, which changes the list of texts.
using DecoderStep = std::function<void(std::vector<std::string>& texts)>;
using DecoderReader = DecoderStep (*)(const JsonValue& value);

void join_byte_levels(std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) bytes += bytes_of_letters(text).value_or(text);
  texts = {lossy_text(bytes)};
}

void join_all(std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += text;
  texts = {std::move(joined)};
}

/// Replaces neighbouring tokens of bytes by their text, or by one U+FFFD a byte if it is not UTF-8.
void join_fallback_bytes(std::vector<std::string>& texts) {
  std::vector<std::string> result;
  std::string bytes;
  const auto end_bytes = [&] {
    if (bytes.empty()) return;
    if (!first_invalid_byte(bytes)) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (std::string& text : texts) {
    if (const auto byte = byte_of_token_name(text)) {
      bytes += *byte;
    } else {
      end_bytes();
      result.push_back(std::move(text));
    }
  }
  end_bytes();
  texts = std::move(result);
}

DecoderStep read_metaspace_decoder(const JsonValue& value) {
  const std::string mark = read_character(value, "replacement", std::string(kWordMark));
  const bool has_prefix = value.find("prepend_scheme") ? value.string_or("prepend_scheme", "") != "never"
                                                       : value.boolean_or("add_prefix_space", true);
  return [mark, has_prefix](std::vector<std::string>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::string text;
      for (std::size_t at = 0; at < texts[i].size();) {
        if (texts[i].compare(at, mark.size(), mark) == 0) {
          if (i != 0 || !has_prefix) text += ' ';
          at += mark.size();
        } else {
          text += texts[i][at++];
        }
      }
      texts[i] = std::move(text);
    }
  };
}

DecoderStep read_strip_decoder(const JsonValue& value) {
  const std::string content = read_character(value, "content", "");
  const std::size_t start = static_cast<std::size_t>(value.at("start").token());
  const std::size_t stop = static_cast<std::size_t>(value.at("stop").token());
  return [=](std::vector<std::string>& texts) {
    for (std::string& text : texts) {
      std::size_t begin = 0;
      std::size_t end = text.size();
      for (std::size_t i = 0; i < start && text.compare(begin, content.size(), content) == 0; ++i)
        begin += content.size();
      for (std::size_t i = 0; i < stop && end >= begin + content.size() &&
                              text.compare(end - content.size(), content.size(), content) == 0;
           ++i) {
        end -= content.size();
      }
      text = text.substr(begin, end - begin);
    }
  };
}

DecoderStep read_replace_decoder(const JsonValue& value) {
  const Pattern pattern = read_pattern(value.at("pattern"));
  const std::string content = value.at("content").string();
  return [pattern, content](std::vector<std::string>& texts) {
    PatternMemory memory;
    for (std::string& text : texts) text = pattern.replace_all(text, content, memory);
  };
}

DecoderStep read_bpe_decoder(const JsonValue& value) {
  const Pattern pattern = Pattern::literal(value.string_or("suffix", "</w>"));
  return [pattern](std::vector<std::string>& texts) {
    PatternMemory memory;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = pattern.replace_all(texts[i], i + 1 == texts.size() ? "" : " ", memory);
    }
  };
}

/// Joins the parts of words, and removes spaces that English text does not have.
DecoderStep read_word_piece_decoder(const JsonValue& value) {
  const std::string prefix = value.string_or("prefix", "##");
  const bool cleans = value.boolean_or("cleanup", true);
  return [=](std::vector<std::string>& texts) {
    static constexpr std::pair<std::string_view, std::string_view> kSpaces[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    PatternMemory memory;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (i > 0) texts[i] = texts[i].starts_with(prefix) ? texts[i].substr(prefix.size()) : " " + texts[i];
      for (const auto& [from, to] : kSpaces) {
        if (cleans) texts[i] = Pattern::literal(std::string(from)).replace_all(texts[i], to, memory);
      }
    }
  };
}

const std::map<std::string, DecoderReader>& decoder_readers() {
  static const std::map<std::string, DecoderReader> kReaders = {
      {"ByteLevel", [](const JsonValue&) -> DecoderStep { return join_byte_levels; }},
      {"ByteFallback", [](const JsonValue&) -> DecoderStep { return join_fallback_bytes; }},
      {"Fuse", [](const JsonValue&) -> DecoderStep { return join_all; }},
      {"Metaspace", read_metaspace_decoder},
      {"Strip", read_strip_decoder},
      {"Replace", read_replace_decoder},
      {"BPEDecoder", read_bpe_decoder},
      {"WordPiece", read_word_piece_decoder},
  };
  return kReaders;
}

}  // namespace

TokenDecoder read_decoder(const std::optional<JsonValue>& value) {
  std::vector<DecoderStep> steps;
  for (const JsonValue& step : steps_of(value, "decoders")) steps.push_back(reader_of(decoder_readers(), step)(step));
  return [steps = std::move(steps), separates = !value.has_value()](std::vector<std::string> texts) {
    for (const DecoderStep& step : steps) step(texts);
    std::string result;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (separates && i > 0) result += ' ';
      result += texts[i];
    }
    return result;
  };
}

}  // namespace strata::host

#include "tokenizers/token_decoder.hpp"

#include <map>
#include <memory>
#include <utility>

#include "strata/error.hpp"
#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/normalizer.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

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
  const std::string mark = value.string_or("replacement", "\xE2\x96\x81");
  const bool has_prefix = value.find("prepend_scheme") ? value.string_or("prepend_scheme", "") != "never"
                                                       : value.boolean_or("add_prefix_space", true);
  if (mark.empty() || code_point_bytes(mark[0]) != mark.size()) value.at("replacement").refuse("one character");
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

std::size_t read_count(const JsonValue& value) { return static_cast<std::size_t>(value.token()); }

DecoderStep read_strip_decoder(const JsonValue& value) {
  const std::string content = value.at("content").string();
  if (content.empty() || code_point_bytes(content[0]) != content.size()) value.at("content").refuse("one character");
  const std::size_t start = read_count(value.at("start"));
  const std::size_t stop = read_count(value.at("stop"));
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
  const auto pattern = std::make_shared<const Pattern>(read_pattern(value.at("pattern")));
  const std::string content = value.at("content").string();
  return [pattern, content](std::vector<std::string>& texts) {
    PatternMemory memory;
    for (std::string& text : texts) text = pattern->replace_all(text, content, memory);
  };
}

DecoderStep read_bpe_decoder(const JsonValue& value) {
  const std::string suffix = value.string_or("suffix", "</w>");
  const auto pattern = std::make_shared<const Pattern>(Pattern::literal(suffix));
  return [pattern](std::vector<std::string>& texts) {
    PatternMemory memory;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = pattern->replace_all(texts[i], i + 1 == texts.size() ? "" : " ", memory);
    }
  };
}

const std::map<std::string, DecoderReader>& decoder_readers() {
  static const std::map<std::string, DecoderReader> kDecoderReaders = {
      {"ByteLevel", [](const JsonValue&) -> DecoderStep { return join_byte_levels; }},
      {"ByteFallback", [](const JsonValue&) -> DecoderStep { return join_fallback_bytes; }},
      {"Fuse", [](const JsonValue&) -> DecoderStep { return join_all; }},
      {"Metaspace", read_metaspace_decoder},
      {"Strip", read_strip_decoder},
      {"Replace", read_replace_decoder},
      {"BPEDecoder", read_bpe_decoder},
  };
  return kDecoderReaders;
}

}  // namespace

TokenDecoder::Step TokenDecoder::read_step(const JsonValue& value) {
  const JsonValue type = value.at("type");
  const auto reader = decoder_readers().find(type.string());
  if (reader != decoder_readers().end()) return reader->second(value);
  std::string names = "Sequence";
  for (const auto& [name, unused] : decoder_readers()) names += ", " + name;
  type.refuse(names);
}

TokenDecoder::TokenDecoder(const std::optional<JsonValue>& value) {
  separates_ = !value.has_value();
  if (!value) return;
  if (value->string_or("type", "") != "Sequence") {
    steps_.push_back(read_step(*value));
    return;
  }
  const JsonValue list = value->at("decoders");
  for (std::size_t i = 0; i < list.size(); ++i) steps_.push_back(read_step(list.element(i)));
}

std::string TokenDecoder::decode(std::vector<std::string> texts) const {
  for (const Step& step : steps_) step(texts);
  std::string result;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (separates_ && i > 0) result += ' ';
    result += texts[i];
  }
  return result;
}

}  // namespace strata::host

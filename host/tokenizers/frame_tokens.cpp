#include "tokenizers/frame_tokens.hpp"

namespace strata::host {
namespace {

/// Reads a template such as [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}].
FrameTokens read_template(const JsonValue& value) {
  const JsonValue pieces = value.at("single");
  FrameTokens frame;
  bool has_text = false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const JsonValue piece = pieces.element(i);
    if (piece.find("Sequence")) {
      if (has_text) piece.fail("found the text a second time; accepted: once");
      has_text = true;
      continue;
    }
    const JsonValue name = piece.at("SpecialToken").at("id");
    const JsonValue numbers = value.at("special_tokens").at(name.string()).at("ids");
    std::vector<std::int32_t>& tokens = has_text ? frame.last : frame.first;
    for (std::size_t j = 0; j < numbers.size(); ++j) tokens.push_back(numbers.element(j).token());
  }
  if (!has_text) pieces.fail("accepted: pieces of which one is the Sequence A");
  return frame;
}

/// The token of ["<s>", 0].
std::int32_t token_of_pair(const JsonValue& pair) {
  if (pair.size() != 2) pair.refuse("[\"TEXT\", NUMBER]");
  return pair.element(1).token();
}

FrameTokens read_step_tokens(const JsonValue& value) {
  const JsonValue type = value.at("type");
  const std::string name = type.string();
  if (name == "ByteLevel") return {};
  if (name == "TemplateProcessing") return read_template(value);
  if (name == "BertProcessing" || name == "RobertaProcessing") {
    return {{token_of_pair(value.at("cls"))}, {token_of_pair(value.at("sep"))}};
  }
  type.refuse("ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing, Sequence");
}

}  // namespace

FrameTokens read_frame_tokens(const std::optional<JsonValue>& value) {
  if (!value) return {};
  if (value->string_or("type", "") != "Sequence") return read_step_tokens(*value);
  FrameTokens frame;
  const JsonValue list = value->at("processors");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const FrameTokens step = read_step_tokens(list.element(i));
    frame.first.insert(frame.first.begin(), step.first.begin(), step.first.end());
    frame.last.insert(frame.last.end(), step.last.begin(), step.last.end());
  }
  return frame;
}

}  // namespace strata::host

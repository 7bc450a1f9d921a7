#include "token_documents.hpp"

#include <algorithm>
#include <numeric>

#include "shared/token_dataset.hpp"
#include "strata/error.hpp"
#include "token_file.hpp"

namespace datasets {

using namespace strata;

std::vector<OptionSpecification> document_options() {
  return {
      token_type_option(),
      option::integer("document_end", -1, -1, kLargestToken,
                      "The token that ends each document; -1: the files are .idx files, which know their documents."),
      tokenizer_option(), validation_option()};
}

TokenDocuments::TokenDocuments(const std::string& option, const Options& options, const DatasetRequest& request)
    : name_(options.word(option)) {
  at_option(option, [&] {
    const auto source = open_tokens(name_, options, request, files_);
    begins_ = source->layout().document_starts;
    tokens_.resize(static_cast<std::size_t>(source->size()));
    source->read(0, source->size(), tokens_.data());
    const std::int64_t end = options.integer("document_end");
    if (end >= 0) {
      begins_ = {0};
      ends_ = 1;
      for (std::size_t i = 0; i < tokens_.size(); ++i) {
        if (tokens_[i] == end) begins_.push_back(static_cast<std::int64_t>(i) + 1);
      }
    } else if (is_indexed(name_)) {
      begins_.push_back(source->size());
    } else {
      throw OptionError("document_end", "found -1 with '" + name_ + "'; accepted: a token, or .idx files");
    }
    if (count() < 1) {
      throw ConfigurationError("'" + name_ + "': found no document; accepted: at least one, which ends with token " +
                               std::to_string(end));
    }
  });
}

std::vector<std::int32_t> TokenDocuments::read(std::int64_t document, std::int64_t most) const {
  const std::int64_t begin = begins_[static_cast<std::size_t>(document)];
  const std::int64_t size = begins_[static_cast<std::size_t>(document) + 1] - ends_ - begin;
  return {tokens_.begin() + begin, tokens_.begin() + begin + std::min(size, most)};
}

void require_as_many(const std::string& option, const TokenDocuments& found, const TokenDocuments& first) {
  if (found.count() == first.count()) return;
  throw OptionError(option, "'" + found.name() + "': found " + std::to_string(found.count()) +
                                " documents; accepted: " + std::to_string(first.count()) + ", as '" + first.name() +
                                "' has");
}

DocumentSplit::DocumentSplit(std::int64_t documents, const Options& options, const DatasetRequest& request) {
  const double share = options.number("validation");
  validation = static_cast<std::int64_t>(static_cast<double>(documents) * share);
  training = documents - validation;
  if (training >= 1 && (validation >= 1 || !request.validates)) return;
  throw OptionError("validation", "found " + to_string(OptionValue(share)) + " of " + std::to_string(documents) +
                                      " documents; accepted: a share that leaves at least one for training and, "
                                      "unless run.eval_every = 0, one for evaluation");
}

void write_padded(const std::vector<std::int32_t>& tokens, std::int64_t length, std::int32_t padding,
                  void* destination) {
  if (destination == nullptr) return;
  auto* to = static_cast<std::int32_t*>(destination);
  std::fill(std::copy(tokens.begin(), tokens.end(), to), to + length, padding);
}

void write_mask(std::size_t tokens, std::int64_t length, void* destination) {
  write_padded(std::vector<std::int32_t>(tokens, 1), length, 0, destination);
}

void write_positions(std::int64_t length, void* destination) {
  if (destination == nullptr) return;
  auto* to = static_cast<std::int32_t*>(destination);
  std::iota(to, to + length, 0);
}

std::int64_t size_of_model(const DatasetRequest& request, const std::string& dim) {
  const auto found = request.sizes.find(dim);
  if (found != request.sizes.end()) return found->second;
  throw ConfigurationError("the model fixes no size of '" + dim + "'; accepted: a model that does");
}

void add_text_ends(std::vector<OptionSpecification>& options) {
  options.push_back(option::with_role(
      OptionRole::text_end, option::integer("end_token", 1, 0, kLargestToken, "The token that ends both sequences.")));
  options.push_back(option::with_role(
      OptionRole::text_begin,
      option::integer("start_token", 0, 0, kLargestToken, "The first token of the decoder, and the padding.")));
}

void require_tokens(const std::vector<std::string>& names, const Options& options, const DatasetRequest& request) {
  const auto vocab = request.sizes.find("vocab");
  if (vocab == request.sizes.end()) return;
  for (const std::string& name : names) {
    const std::int64_t token = options.integer(name);
    if (token < vocab->second) continue;
    throw OptionError(name, "found " + std::to_string(token) + "; accepted: 0 to " + std::to_string(vocab->second - 1) +
                                ", which the model's vocabulary has");
  }
}

DatasetInput mask_input(const std::string& name, const Dim& dim) {
  return {.name = name, .dims = {dim}, .indexes = "mask_value"};
}

std::vector<DatasetInput> two_sequences() {
  return {{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
          mask_input("mask", "seq"),
          {.name = "target_tokens", .dims = {"target_seq"}, .indexes = "vocab"},
          mask_input("target_mask", "target_seq"),
          {.name = "targets", .dims = {"target_seq"}, .indexes = "vocab", .is_target = true}};
}

void write_targets(const std::vector<std::int32_t>& tokens, std::int64_t length, std::int32_t start,
                   std::span<void* const> destinations) {
  std::vector<std::int32_t> shifted{start};
  shifted.insert(shifted.end(), tokens.begin(), tokens.end() - 1);
  write_padded(shifted, length, start, destinations[0]);
  write_mask(tokens.size(), length, destinations[1]);
  write_padded(tokens, length, -1, destinations[2]);
}

}  // namespace datasets

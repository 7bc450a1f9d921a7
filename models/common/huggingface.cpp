#include "common/huggingface.hpp"

#include "strata/error.hpp"

namespace strata::models {

std::int64_t checked_size(const HuggingFaceFields& config, const std::string& field,
                          std::optional<std::int64_t> otherwise) {
  const std::int64_t size = config.integer(field, otherwise);
  if (size < 1) throw OptionError(field, "found " + std::to_string(size) + "; accepted: at least 1");
  return size;
}

void require_plain_weights(const HuggingFaceFields& config) {
  if (!config.has_value("quantization_config")) return;
  throw OptionError("quantization_config", "found one; accepted: none, with weights in f32, bf16 or f16");
}

std::int64_t vocabulary_rows(std::int64_t vocab, const DimSizes& sizes) {
  const auto of_data = sizes.find("vocab");
  return vocab > 0 || of_data == sizes.end() ? vocab : of_data->second;
}

}  // namespace strata::models

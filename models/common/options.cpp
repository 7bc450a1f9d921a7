#include "common/options.hpp"

namespace strata::models {

OptionSpecification size_option(const std::string& name, const std::string& documentation, double maximum) {
  return {.name = name,
          .type = OptionType::integer,
          .default_value = OptionValue(std::int64_t{0}),
          .documentation = documentation,
          .minimum = 0,
          .maximum = maximum};
}

OptionSpecification documents_option() {
  return {.name = "documents",
          .type = OptionType::boolean,
          .default_value = OptionValue(false),
          .documentation =
              "Keeps attention inside a document and starts positions anew in each: reads the inputs "
              "documents and positions [batch seq] of the dataset."};
}

}  // namespace strata::models

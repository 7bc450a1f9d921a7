#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "strata/model.hpp"
#include "strata/options.hpp"

namespace strata::models {

/// An option for a size, from 0 to `maximum`. The default 0 stands for the size that the model's name gives.
[[nodiscard]] inline OptionSpecification size_option(const std::string& name, const std::string& documentation,
                                                     double maximum) {
  return option::integer(name, 0, 0, maximum, documentation);
}

/// The option `documents`, which keeps attention inside a document.
[[nodiscard]] inline OptionSpecification documents_option() {
  return option::boolean("documents", false,
                         "Keeps attention inside a document and starts positions anew in each: reads the inputs "
                         "documents and positions [batch seq] of the dataset.");
}

/// Sizes for ModelFactory::shrink().
class SmallSizes {
 public:
  /// The request outlives the object.
  explicit SmallSizes(const ShrinkRequest& request) : request_(request) {}

  /// A number that divides the size of `dim`.
  [[nodiscard]] std::int64_t multiple(const Dim& dim) const {
    const auto found = request_.multiples.find(dim);
    return found == request_.multiples.end() ? 1 : found->second;
  }
  /// A multiple that is at least 2, because with size 1 a wrong index goes unnoticed.
  [[nodiscard]] std::int64_t several(const Dim& dim) const { return std::max<std::int64_t>(multiple(dim), 2); }
  /// Two blocks, or all of the model's if the request keeps them.
  [[nodiscard]] std::int64_t blocks(std::int64_t all) const {
    return request_.keeps_blocks ? all : std::min<std::int64_t>(all, 2);
  }

 private:
  const ShrinkRequest& request_;
};

}  // namespace strata::models

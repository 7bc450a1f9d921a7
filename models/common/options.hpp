#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "strata/error.hpp"
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

/// Overrides the fields of a size by the options that are set.
class Overrides {
 public:
  explicit Overrides(const Options& options) : options_(options) {}

  /// \return whether the option is set.
  bool integer(const char* name, std::int64_t& field) const {
    if (options_.integer(name) <= 0) return false;
    field = options_.integer(name);
    return true;
  }
  void number(const char* name, double& field) const {
    if (options_.number(name) > 0) field = options_.number(name);
  }
  void choice(const char* name, bool& field) const {
    if (options_.word(name) != "auto") field = options_.word(name) == "yes";
  }
  /// `words`: those of the enumeration, in its order.
  template <class Enumeration, std::size_t count>
  void one_of(const char* name, const std::array<const char*, count>& words, Enumeration& field) const {
    const auto* found = std::find(words.begin(), words.end(), options_.word(name));
    if (found != words.end()) field = static_cast<Enumeration>(found - words.begin());
  }

 private:
  const Options& options_;
};

/// \throws OptionError of `heads` if they do not divide the stream.
inline void require_equal_heads(std::int64_t heads, std::int64_t embed) {
  if (embed % heads == 0) return;
  throw OptionError("heads", std::to_string(heads) + " heads do not divide embed = " + std::to_string(embed) +
                                 "; choose a divisor of embed");
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

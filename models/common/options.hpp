#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/model.hpp"
#include "strata/options.hpp"

namespace strata::models {

/// An option for a size, from 0 to `maximum`. The default 0 stands for the size that the model's name gives.
[[nodiscard]] inline OptionSpecification size_option(const std::string& name, const std::string& documentation,
                                                     double maximum) {
  return option::integer(name, 0, 0, maximum, documentation);
}

/// A published model, which the option `size` names.
template <class Settings>
struct NamedSize {
  std::string name;
  Settings settings;
};

/// The option `size`: the name of one of `sizes`, or "custom".
template <class Settings>
[[nodiscard]] OptionSpecification named_size_option(const std::vector<NamedSize<Settings>>& sizes,
                                                    const std::string& documentation) {
  std::vector<std::string> names = {"custom"};
  for (const NamedSize<Settings>& each : sizes) names.push_back(each.name);
  return option::word("size", "custom", documentation, std::move(names));
}

/// The settings of the size that the option `size` names. Those of "custom" are the default ones.
template <class Settings>
[[nodiscard]] Settings settings_of_size(const std::vector<NamedSize<Settings>>& sizes, const Options& options) {
  for (const NamedSize<Settings>& each : sizes) {
    if (options.word("size") == each.name) return each.settings;
  }
  return {};
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

/// The options of a smaller model, for ModelFactory::shrink(). Its size is "custom".
class SmallOptions {
 public:
  /// The request outlives the object.
  SmallOptions(const Options& full, const ShrinkRequest& request) : options_(full), request_(request) {
    set("size", std::string("custom"));
  }

  template <class Value>
  void set(const std::string& name, const Value& value) {
    options_.set(name, OptionValue(value));
  }
  /// Sets `heads`, and `embed` to a multiple of at least 8 for heads that divide the stream. `widths`: the dims as wide
  /// as the stream.
  void set_equal_heads(std::initializer_list<Dim> widths) {
    const std::int64_t heads = several("heads");
    const std::int64_t step = multiple(widths, heads * several("head_dim"));
    set("heads", heads);
    set("embed", step < 8 ? 8 / step * step : step);
  }
  /// Sets `classes` unless the data fixes them. `full`: those of the full model.
  void set_classes(std::int64_t full) {
    if (full > 0) set("classes", multiple({"classes"}, 2));
  }
  [[nodiscard]] const Options& options() const { return options_; }

  /// The least multiple of `factor` that can be the size of each of `dims`.
  [[nodiscard]] std::int64_t multiple(std::initializer_list<Dim> dims, std::int64_t factor = 1) const {
    for (const Dim& dim : dims) {
      const auto found = request_.multiples.find(dim);
      if (found != request_.multiples.end()) factor = std::lcm(factor, found->second);
    }
    return factor;
  }
  /// A multiple that is at least 2, because with size 1 a wrong index goes unnoticed.
  [[nodiscard]] std::int64_t several(const Dim& dim) const { return std::max<std::int64_t>(multiple({dim}), 2); }
  /// Two blocks, or all of the model's if the request keeps them.
  [[nodiscard]] std::int64_t blocks(std::int64_t all) const {
    return request_.keeps_blocks ? all : std::min<std::int64_t>(all, 2);
  }

 private:
  Options options_;
  const ShrinkRequest& request_;
};

/// The factory of a model whose static function shrink() is ModelFactory's.
template <class Product, class Format>
class FactoryWithFormat final : public FactoryOf<ModelFactory, Product> {
 public:
  [[nodiscard]] Options shrink(const Options& options, const ShrinkRequest& request) const override {
    return Product::shrink(options, request);
  }
  [[nodiscard]] const HuggingFaceFormat* huggingface() const override { return &format_; }

 private:
  Format format_;
};

}  // namespace strata::models

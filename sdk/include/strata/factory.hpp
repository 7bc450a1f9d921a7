#pragma once

#include <memory>
#include <utility>

#include "strata/options.hpp"

namespace strata {

/// The factory of a class that is made from its options alone: `Product::schema()` lists them, and the constructor
/// takes them. `Factory`: that of the kind of plugin, such as StrategyFactory. Example:
///
///     using TensorFactory = FactoryOf<StrategyFactory, TensorParallel>;
template <class Factory, class Product>
class FactoryOf : public Factory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] decltype(std::declval<const Factory&>().create({})) create(const Options& options) const override {
    return std::make_unique<Product>(options);
  }

 private:
  OptionSchema schema_ = Product::schema();
};

}  // namespace strata

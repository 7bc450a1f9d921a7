#pragma once

#include <memory>

#include "strata/communicator.hpp"

namespace strata::gloo {

class GlooCommunicatorFactory final : public CommunicatorFactory {
 public:
  GlooCommunicatorFactory();
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override;

 private:
  OptionSchema schema_;
};

}  // namespace strata::gloo

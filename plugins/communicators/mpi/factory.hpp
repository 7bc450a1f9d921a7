#pragma once

#include <memory>

#include "strata/communicator.hpp"

namespace strata::mpi {

class MpiCommunicatorFactory final : public CommunicatorFactory {
 public:
  MpiCommunicatorFactory();
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  /// Initialises MPI, if this is the process's first world.
  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override;

 private:
  OptionSchema schema_;
};

}  // namespace strata::mpi

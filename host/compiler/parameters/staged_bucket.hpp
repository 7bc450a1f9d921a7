#pragma once

#include <string>
#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Staging copies on the device of a bucket's offloaded values and states, which exist during its update.
class StagedBucket {
 public:
  StagedBucket(ProgramBuilder& builder, const Bucket& bucket, const std::vector<BufferId>& states);

  /// The staging copy of `buffer`, or `buffer` itself if it is on the device.
  [[nodiscard]] BufferId on_device(BufferId buffer) const;

  /// Starts transfers to the device. They wait until no instruction uses the buffers `after`.
  void fetch(const std::vector<BufferId>& after, std::vector<Instruction>& instructions) const;
  /// Starts the transfers back to the host or file.
  void store(std::vector<Instruction>& instructions) const;
  /// The staging copies, for instructions that must wait for the transfers.
  [[nodiscard]] std::vector<BufferId> copies() const;

 private:
  struct Copy {
    BufferId home = -1;
    BufferId copy = -1;
    std::string name;
  };

  void stage(ProgramBuilder& builder, BufferId buffer);

  std::vector<Copy> copies_;
};

}  // namespace strata::host

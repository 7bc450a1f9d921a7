#pragma once

#include <string>
#include <vector>

#include "compiler/parameters/buckets.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// What of a bucket lies outside of the device, with the copies that stand for it there while the bucket is updated.
class StagedBucket {
 public:
  StagedBucket(ProgramBuilder& builder, const Bucket& bucket);

  /// The buffer that the optimizer works on in the place of `buffer`; itself where it lies on the device.
  [[nodiscard]] BufferId on_device(BufferId buffer) const;

  /// Starts to bring the contents to the device, once nothing uses the buffers `after` any more.
  void fetch(const std::vector<BufferId>& after, std::vector<Instruction>& instructions) const;
  /// Starts to bring them back.
  void store(std::vector<Instruction>& instructions) const;
  /// The copies, to wait for.
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

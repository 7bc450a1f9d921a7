#pragma once

#include <cstdint>
#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// The exchange that turns every rank's pieces of several parameters into whole parameters, each on another rank, and
/// back. All parameters have the same dimensions and storage.
///
/// Example: two ranks store halves of the matrices A and B. An all_to_all gives A to the first rank and B to the
/// second. Each sends and receives as much as one half. With two axes of two ranks, four matrices are exchanged along
/// one axis and then along the other.
class WholeExchange {
 public:
  /// For a bucket with one parameter. Dimensions in `apart` stay sharded.
  WholeExchange(ProgramBuilder& builder, const Bucket& bucket, const Dims& apart);

  /// Number of parameters that are exchanged together: 1 if every rank has the parameter whole already.
  [[nodiscard]] std::int64_t parameters() const { return parameters_; }
  /// Sizes of the gathered parameter. Dimensions that are kept apart have the size of a rank's shard.
  [[nodiscard]] const Shape& shape() const { return whole_; }

  /// `stack`: this rank's pieces of all parameters, one after the other. \return the buffer of the parameter that this
  /// rank has whole.
  BufferId gather(BufferId stack, const std::string& label, std::vector<Instruction>& instructions) const;
  /// The inverse of gather(): writes the pieces of all parameters to `stack`.
  void scatter(BufferId whole, BufferId stack, const std::string& label, std::vector<Instruction>& instructions) const;

 private:
  /// The exchange along one axis.
  struct Level {
    AxisShard shard;
    /// The sharded dimension. -1: the axis deals pieces of the flat bucket.
    int dim = -1;
  };
  /// What a rank has of each parameter before a level: a flat piece, or a block of `shape`.
  struct Stage {
    std::int64_t parameters = 1;
    Shape shape;
  };

  [[nodiscard]] Stage after(const Stage& stage, const Level& level) const;
  /// The copy that moves the ranks' parts of a level to their positions (unpack), or back (pack).
  [[nodiscard]] Instruction copy(Copy::Kind kind, const Level& level, const Stage& merged,
                                 const std::string& label) const;
  [[nodiscard]] bool is_contiguous(const Level& level, const Stage& merged) const;
  /// True if the padding of the flat bucket must go before the parameters are blocks.
  [[nodiscard]] bool has_padding() const { return padded_ > unpadded_; }
  BufferId remove_padding(BufferId padded, const Stage& stage, const std::string& label,
                          std::vector<Instruction>& instructions) const;
  BufferId restore_padding(BufferId blocks, const Stage& stage, const std::string& label,
                           std::vector<Instruction>& instructions) const;
  /// Blocks of one rank that lie `stride` elements apart.
  struct Blocks {
    BufferId buffer = -1;
    std::int64_t stride = 0;
  };
  void copy_blocks(const Blocks& from, const Blocks& to, std::int64_t count, const std::string& label,
                   std::vector<Instruction>& instructions) const;
  BufferId add(const std::string& label, std::int64_t elements, DType type) const;

  ProgramBuilder& builder_;
  std::vector<Level> flat_levels_;   // innermost axis first
  std::vector<Level> block_levels_;  // of each dimension, innermost axis first
  std::int64_t parameters_ = 1;
  std::int64_t piece_ = 0;
  /// Elements of a rank's block of the parameter in the flat bucket, with and without padding.
  std::int64_t padded_ = 0;
  std::int64_t unpadded_ = 0;
  /// Shape of a rank's block, and of the gathered parameter.
  Shape block_;
  Shape whole_;
};

}  // namespace strata::host

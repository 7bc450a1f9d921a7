#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/tensor.hpp"

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
  /// The axes of the ranks that exchange. The rank with index i over them, outermost first, gets parameter i.
  [[nodiscard]] std::vector<Axis> axes() const;
  /// Sizes of the gathered parameter. Dimensions that are kept apart have the size of a rank's shard.
  [[nodiscard]] const Shape& shape() const { return whole_; }

  /// `stack`: this rank's pieces of all parameters, one after the other. \return the buffer of the parameter that this
  /// rank has whole.
  BufferId gather(BufferId stack, const std::string& label, std::vector<Instruction>& instructions) const;
  /// The inverse of gather(): writes the pieces of all parameters to `stack`.
  void scatter(BufferId whole, BufferId stack, const std::string& label, std::vector<Instruction>& instructions) const;

 private:
  /// The exchange along one axis, and what a rank has after it of each parameter.
  struct Level {
    AxisShard shard;
    /// The dimension of `shape` that the exchange completes.
    std::size_t dim = 0;
    std::int64_t parameters = 1;
    Shape shape;

    /// Elements before `dim` in what the level merges.
    [[nodiscard]] std::int64_t outer() const;
    [[nodiscard]] bool is_contiguous() const { return shard.distribution == Distribution::block && outer() == 1; }
  };

  void add_level(AxisShard shard, std::size_t dim);
  /// `piece`: what a rank has before the first exchange. `block`: before the first that completes a dimension.
  void merge_levels(Shape piece, const Shape& block);
  BufferId exchange(BufferId source, BufferId target, const Level& level, const std::string& name,
                    std::vector<Instruction>& instructions) const;
  /// Moves the ranks' parts of a level to their positions (unpack), or back (pack), in a new buffer.
  BufferId copy(Copy::Kind kind, const Level& level, BufferId source, const std::string& name, const std::string& label,
                std::vector<Instruction>& instructions) const;
  /// True if the padding of the flat bucket must go before the parameters are blocks.
  [[nodiscard]] bool has_padding() const { return padded_ > unpadded_; }
  [[nodiscard]] std::int64_t flat_parameters() const { return levels_[flat_levels_ - 1].parameters; }
  BufferId remove_padding(BufferId padded, const std::string& label, std::vector<Instruction>& instructions) const;
  BufferId restore_padding(BufferId blocks, const std::string& label, std::vector<Instruction>& instructions) const;
  /// Copies the blocks of all parameters, which lie a stride apart.
  void copy_blocks(BufferId source, std::int64_t source_stride, BufferId target, std::int64_t target_stride,
                   const std::string& label, std::vector<Instruction>& instructions) const;
  [[nodiscard]] BufferId add(const std::string& label, std::int64_t elements, DType type) const;
  [[nodiscard]] BufferId add_like(BufferId buffer, const std::string& label) const;

  ProgramBuilder& builder_;
  /// Innermost axis first: the axes that deal pieces of the flat bucket, then those of each dimension.
  std::vector<Level> levels_;
  std::size_t flat_levels_ = 0;
  std::int64_t parameters_ = 1;
  /// Elements of a rank's block of the parameter in the flat bucket, with and without padding.
  std::int64_t padded_ = 0;
  std::int64_t unpadded_ = 0;
  /// Shape of the gathered parameter.
  Shape whole_;
};

}  // namespace strata::host

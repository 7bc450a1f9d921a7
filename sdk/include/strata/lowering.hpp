#pragma once

#include <cstdint>
#include <string>

#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata {

/// \file
/// What a strategy is given when it builds instructions itself: of one node (Strategy::lower), or in the place of one
/// collective (Strategy::convert).

/// One node on its way to instructions of one task. Owned by the host, valid during the call.
class STRATA_API LoweringContext {
 public:
  virtual ~LoweringContext();

  [[nodiscard]] virtual const Graph& graph() const = 0;
  [[nodiscard]] virtual const Node& node() const = 0;
  [[nodiscard]] virtual const LayoutRules& rules() const = 0;
  /// What the op declares.
  [[nodiscard]] virtual const IterationSpace& space() const = 0;
  /// What the rules give it.
  [[nodiscard]] virtual const IterationLayout& iteration() const = 0;

  /// The buffer that holds an operand in `layout`; emits the conversion where it has another one.
  virtual BufferId operand(int index, const Layout& layout) = 0;
  /// A buffer for one micro-batch; `shape` is local.
  virtual BufferId add_buffer(const std::string& name, BufferKind kind, const TensorType& type, const Shape& shape) = 0;
  /// An iteration dimension of `global_size` that `axes` shard as the rules say for `dim`.
  [[nodiscard]] virtual ShardedDim sharded_dim(const Dim& dim, std::int64_t global_size,
                                               const std::vector<Axis>& axes) const = 0;
  /// The id of a communication; the same label gives the same id on every rank.
  virtual std::uint64_t communication_id(const std::string& label) = 0;
  /// Appends an instruction to the node's task.
  virtual void emit(Instruction instruction) = 0;
  /// Says where result `index` is: `buffer`, laid out as `layout`, a partial sum over `partial`. Called once a result.
  virtual void define(int index, BufferId buffer, const Layout& layout, const AxisSet& partial) = 0;
};

/// A collective that the compiler is about to emit.
struct PlannedCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  /// What travels: parameter (values of a bucket), gradient (of a bucket) or activation.
  BufferKind value = BufferKind::activation;
  Reduction reduction = Reduction::sum;
  std::vector<Axis> axes;
  DType dtype = DType::f32;
  /// Elements of the input on this rank, and of the output.
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
};

/// One collective in whose place a strategy puts instructions of its own.
class STRATA_API ConversionContext {
 public:
  virtual ~ConversionContext();

  [[nodiscard]] virtual const Mesh& mesh() const = 0;
  [[nodiscard]] virtual const PlannedCollective& planned() const = 0;
  /// For names of instructions and buffers.
  [[nodiscard]] virtual const std::string& label() const = 0;
  [[nodiscard]] virtual BufferId input() const = 0;
  /// Written whole; the input itself where the collective works in place, else the input is left as it is.
  [[nodiscard]] virtual BufferId output() const = 0;
  /// A flat buffer that lives as long as it is used.
  virtual BufferId add_flat(const std::string& name, DType dtype, std::int64_t elements) = 0;
  virtual std::uint64_t communication_id(const std::string& label) = 0;
  virtual void emit(Instruction instruction) = 0;
};

}  // namespace strata

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "strata/emitter.hpp"
#include "strata/export.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata {

/// \file
/// The contexts in which a strategy builds instructions itself: for one node (Strategy::lower), or in place of one
/// collective (Strategy::convert).

/// One node that a strategy may claim. The host owns it, and it is valid during the call.
class STRATA_API NodeToLower {
 public:
  virtual ~NodeToLower();

  [[nodiscard]] virtual const Graph& graph() const = 0;
  [[nodiscard]] virtual const Node& node() const = 0;
  [[nodiscard]] virtual const LayoutRules& rules() const = 0;
  /// The op's iteration space.
  [[nodiscard]] virtual const IterationSpace& space() const = 0;
  /// The layout that the rules assign to the iteration space.
  [[nodiscard]] virtual const IterationLayout& iteration() const = 0;
  /// How the op mixes positions. Null if it does not say so.
  [[nodiscard]] virtual const PositionMixing* mixing() const = 0;
  /// Tells users what the strategy cannot do for the node, in one sentence without its end mark. `strata check`,
  /// `explain` and `train` print equal sentences once.
  virtual void note(const std::string& sentence) = 0;
};

/// One node that a strategy turns into instructions of a task. The label is the node's name.
class STRATA_API LoweringContext : public NodeToLower, public Emitter {
 public:
  ~LoweringContext() override;

  /// The buffer that holds operand `index` in `layout`. Emits a conversion if the operand has another layout.
  virtual BufferId operand(int index, const Layout& layout) = 0;
  /// Adds a buffer of one micro-batch. `shape` is local, in elements.
  virtual BufferId add_buffer(const std::string& name, BufferKind kind, const TensorType& type, const Shape& shape) = 0;
  /// An iteration dimension of `global_size` that `axes` shard with the distributions that the rules give `dim`.
  [[nodiscard]] virtual ShardedDim sharded_dim(const Dim& dim, std::int64_t global_size,
                                               const std::vector<Axis>& axes) const = 0;
  /// Defines result `index` of the node: it is in `buffer`, has the layout `layout` and is partial over `partial`.
  /// Called once per result.
  virtual void define(int index, BufferId buffer, const Layout& layout, const AxisSet& partial) = 0;
};

/// A collective of the program, described to strategies that may claim it.
struct PlannedCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  /// Kind of the values: parameter (values of a bucket), gradient (of a bucket) or activation.
  BufferKind content = BufferKind::activation;
  Reduction reduction = Reduction::sum;
  std::vector<Axis> axes;
  DType dtype = DType::f32;
  /// Elements of the input and of the output on this rank.
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
};

/// One collective that a strategy replaces by its own instructions. They must write the whole output and communicate
/// over the axes of the collective only.
class STRATA_API ConversionContext : public Emitter {
 public:
  ~ConversionContext() override;

  /// The collective to replace.
  [[nodiscard]] virtual const PlannedCollective& planned() const = 0;
  /// The buffer to read.
  [[nodiscard]] virtual BufferId input() const = 0;
  /// The buffer to write. It equals input() if the collective works in place. If not, the input must stay unchanged.
  [[nodiscard]] virtual BufferId output() const = 0;
};

/// Builds the instructions of a node that a strategy has claimed.
using Lowering = std::function<void(LoweringContext&)>;
/// Builds the instructions that replace a collective which a strategy has claimed.
using Conversion = std::function<void(ConversionContext&)>;

}  // namespace strata

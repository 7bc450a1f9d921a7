#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/mesh.hpp"
#include "strata/program.hpp"
#include "strata/tensor.hpp"

/// \file
/// How a strategy keeps states and works on parameters from step to step (Strategy::work_on_bucket), and how it defines
/// that work in plain code (Strategy::define).

namespace strata {

struct ParameterDescription;

/// A state that a strategy keeps for every element of a bucket.
struct BucketState {
  /// Unique among the states of the parameters, such as "anchor_replica". Checkpoints contain it.
  std::string name;
  /// True: it equals the parameters' values before the first step. False: it is zero.
  bool begins_as_value = false;
  /// Unsynchronized axes of the strategy along which all ranks hold the same contents. Along other unsynchronized axes
  /// they may differ.
  std::vector<Axis> shared_over = {};
};

/// A bucket of trained parameters, seen from a rank that updates a piece of it. Instructions may be restricted to some
/// steps (Instruction::when). Temporary buffers of such instructions may be read under the same condition only.
class STRATA_API BucketContext {
 public:
  virtual ~BucketContext();

  [[nodiscard]] virtual const Mesh& mesh() const = 0;
  /// Prefix for names of instructions and buffers, such as "bucket 3".
  [[nodiscard]] virtual const std::string& label() const = 0;
  /// The number that Strategy::fragment gives the bucket's parameters.
  [[nodiscard]] virtual int fragment() const = 0;
  /// Elements of this rank's piece.
  [[nodiscard]] virtual std::int64_t elements() const = 0;
  /// Type of values() and of states: f32, or f64 in f64 runs.
  [[nodiscard]] virtual DType dtype() const = 0;
  /// The piece's values after the optimizer's update, which instructions may change. For parameters of a shorter type
  /// it is their master copy, and the host rounds it afterwards.
  [[nodiscard]] virtual BufferId values() const = 0;
  /// Adds a state of the piece. The host plans it, saves it in checkpoints and stores it where the optimizer's states
  /// are stored. \throws ConfigurationError if the name is taken.
  virtual BufferId add_state(const BucketState& state) = 0;
  /// Adds a flat buffer that lives from its first write to its last use in a step.
  virtual BufferId add_flat(const std::string& name, DType dtype, std::int64_t elements) = 0;
  /// The id of a communication. A label has the same id on every rank.
  virtual std::uint64_t communication_id(const std::string& label) = 0;
  /// Appends an instruction to the beginning of the step, which may use states and temporary buffers.
  virtual void emit_first(Instruction instruction) = 0;
  /// Appends an instruction after the optimizer's update of the bucket.
  virtual void emit(Instruction instruction) = 0;
};

/// One term of a weighted_sum().
struct WeightedTerm {
  double factor = 1;
  BufferId buffer = -1;
};

/// The instruction into = a·x + b·y + …, element by element. `into` may be the buffer of the first term. Its type may
/// differ from theirs.
[[nodiscard]] STRATA_API Instruction weighted_sum(std::string name, const std::vector<WeightedTerm>& terms,
                                                  BufferId into);

/// The end of one step for one whole parameter on all replicas along the strategy's unsynchronized axes.
struct DefinedReplicas {
  const ParameterDescription& parameter;
  /// The values of each replica after the optimizer's update, in the order of their coordinates. Elements are
  /// row-major.
  std::vector<std::vector<double>>& values;
  /// The values before the first step.
  const std::vector<double>& initial;
  /// What the definition keeps from step to step, by names of its choice. Empty before the first step.
  std::map<std::string, std::vector<double>>& states;
  std::uint64_t step = 0;
};

}  // namespace strata

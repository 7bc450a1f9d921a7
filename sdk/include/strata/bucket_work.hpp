#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/emitter.hpp"
#include "strata/export.hpp"
#include "strata/program.hpp"
#include "strata/tensor.hpp"

/// \file
/// The hooks of a strategy whose replicas train apart and agree from time to time (ReplicaHooks).

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
/// steps (Instruction::when). Temporary buffers of such instructions may be read under the same condition only. emit()
/// appends an instruction after the optimizer's update of the bucket.
class STRATA_API BucketContext : public Emitter {
 public:
  ~BucketContext() override;

  /// The number that ReplicaHooks::fragment gives the bucket's parameters.
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
  /// Appends an instruction to the beginning of the step, which may use states and temporary buffers.
  virtual void emit_first(Instruction instruction) = 0;
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

/// What a strategy also derives from if replicas along its axes may hold different parameters for some steps. Example:
/// class LocalSgd final : public Strategy, public ReplicaHooks.
class STRATA_API ReplicaHooks {
 public:
  virtual ~ReplicaHooks();

  /// Those of the strategy's axes that are not synchronized in every step: gradients, their norm and the token count
  /// are not summed over them. So ranks along such an axis train replicas that may differ, until work_on_bucket() makes
  /// them agree. Only "batch" may be mapped onto it, and storage may not be sharded over it. Reports are averages over
  /// all replicas.
  [[nodiscard]] virtual std::vector<Axis> unsynchronized_axes() const = 0;
  /// A number that separates parameters: a bucket contains only parameters with equal numbers. Default: 0.
  [[nodiscard]] virtual int fragment(const ParameterDescription& parameter) const;
  /// Adds states and instructions to the step for one bucket of trained parameters. Communication is over the
  /// strategy's own axes. Called once per bucket, on ranks that update it.
  virtual void work_on_bucket(BucketContext& context) const = 0;
  /// Defines, in plain code, the effect of work_on_bucket() on one whole parameter at the end of a step. `strata
  /// verify` proves that the two are equal. Called only for a strategy with unsynchronized axes.
  virtual void define(DefinedReplicas& replicas) const = 0;
};

}  // namespace strata

#pragma once

#include <map>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/op.hpp"

namespace strata::testing {

/// What an operand is filled with. All numbers are exact in the type that the case runs in.
enum class Fill : std::uint8_t {
  normal,
  positive,  ///< in [0.5, 1.5)
  large,     ///< in [3, 5): a log-sum-exp above what it is the log of
  masked,    ///< normal, or -infinity as the log-sum-exp of a query that sees no key
  ids,       ///< rows of the first operand's first dim, by global number; some are -1
  targets,   ///< indices of the last dim of the first operand, by global number; some are -1
  bytes,     ///< integers in [-127, 127]
  count      ///< 37
};

struct CaseOperand {
  Dims dims;
  Fill fill = Fill::normal;
  /// f32 stands for the type that the case runs in.
  DType dtype = DType::f32;
  /// f32 also where the case runs in a shorter type: statistics, sums and the optimizer's states.
  bool full = false;
};

/// One row of the table: an op with a shape, attributes and the part of every dimension that the rank computes.
struct OpCase {
  std::string name;
  std::string op;
  /// Global sizes.
  DimSizes sizes;
  std::vector<CaseOperand> operands;
  Attributes attributes = {};

  /// Iteration dimensions that are sharded, with this rank's part; the others are whole.
  std::map<Dim, IndexMap, std::less<>> shards = {};
  bool accumulate = false;
  /// The operand whose memory the first result takes over, or -1.
  int in_place = -1;
  int micro_batch = 0;
  /// Operands and results begin one element into their memory, as parameters do that follow others in a bucket.
  bool in_views = false;
  /// The launch is captured at another step, and the graph is launched.
  bool in_graph = false;

  /// Ops that the registry doesn't know (those of the program): the results, with what they hold before.
  std::vector<CaseOperand> results = {};
  /// Whether the graph can differentiate the op, so that its gradient is tested.
  bool differentiable = false;
  /// False for a short-hand that no device has a kernel for.
  bool on_devices = true;
  /// A fused form that the compiler chooses where a device has it: a device need not.
  bool optional = false;

  /// ‖device - reference‖ <= tolerance · ‖reference‖, for each result in f32. The reference computes in f64 from the
  /// same f32 operands. The default is about sixteen roundings (2^-24 each): what elementwise functions and short or
  /// blocked sums of random numbers stay well below, and a single wrong element in a million exceeds.
  double tolerance = 1e-6;
};

/// The case as a device sees it. `real`: the type that stands for f32.
OpInstance make_instance(const OpCase& op_case, const OpRegistry& registry, DType real);

/// What a case starts from, the same for every device.
struct CaseValues {
  std::vector<std::vector<double>> operands;
  /// What the results hold before; NaN where the kernel must write every element.
  std::vector<std::vector<double>> before;
};

/// Values that the types of `instance` represent exactly. `reference` computes those that are results of other ops.
CaseValues make_values(const OpCase& op_case, const OpInstance& instance, Device& reference);

/// Runs the case and returns its results. Memory around all results and the workspace is checked. \throws RuntimeError
/// when the kernel wrote outside of them.
std::vector<std::vector<double>> run_case(const OpCase& op_case, const OpInstance& instance, const CaseValues& values,
                                          Device& device);

/// Numbers that depend on `name` only, exact in `type`.
std::vector<double> random_values(const std::string& name, std::int64_t count, Fill fill, DType type = DType::f32);

/// The whole table.
const std::vector<OpCase>& all_op_cases();

// The families of the table.
std::vector<OpCase> linear_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> program_op_cases();
std::vector<OpCase> quantization_cases();

/// A rank's piece of a dimension.
IndexMap shard(std::int64_t size, int count, int index, Distribution distribution = Distribution::block);

void PrintTo(const OpCase& op_case, std::ostream* out);

}  // namespace strata::testing

#pragma once

#include <map>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/op.hpp"

namespace strata::testing {

/// The values of an operand. All numbers are exact in the type of the case.
enum class Fill : std::uint8_t {
  normal,
  positive,             ///< in [0.5, 1.5)
  large,                ///< in [3, 5): a log-sum-exp larger than its terms
  masked,               ///< normal, or -infinity as the log-sum-exp of a query that sees no key
  ids,                  ///< rows of the first operand's first dim, by global number; some are -1
  positions,            ///< rows of the second operand's first dim; some are -1
  targets,              ///< indices of the last dim of the first operand, by global number; some are -1
  documents,            ///< document_of() each token of [batch seq]
  scattered_documents,  ///< the same with numbers that neither ascend nor are unique, such as 3 0 3 -1
  cache_positions,      ///< of [batch seq]: positions that follow one another, then -1 for padding
  bytes,                ///< integers in [-127, 127]
  count,                ///< 37
  sparse,               ///< in [0.5, 1.5), or 0: the gates of experts
  places,               ///< indices below 150, some of them twice
  distinct              ///< up to 257 numbers in [-4, 4] that are at least 1/32 apart
};

struct CaseOperand {
  Dims dims;
  Fill fill = Fill::normal;
  /// f32 represents the type in which the case runs.
  DType dtype = DType::f32;
  /// If true, f32 even if the case runs in a shorter type: statistics, sums and the optimizer's states.
  bool full = false;
  /// If false, the op has no gradient for the operand.
  bool trained = true;
};

/// One row of the table: an op with a shape, attributes and the part of every dimension that the rank computes.
struct OpCase {
  std::string name;
  std::string op;
  /// Global sizes.
  DimSizes sizes;
  std::vector<CaseOperand> operands;
  Attributes attributes = {};

  /// Sharded iteration dimensions, with this rank's part. The others are whole.
  std::map<Dim, IndexMap, std::less<>> shards = {};
  bool accumulate = false;
  /// The operand whose memory the first result reuses, or -1.
  int in_place = -1;
  int micro_batch = 0;
  /// If true, operands and results start one element into their memory, like parameters that follow others in a bucket.
  bool in_views = false;
  /// If true, the launch is captured in another step, and the graph is launched.
  bool in_graph = false;

  /// The results of flat ops, which are in no graph, and of ops that read their results, with their previous values.
  std::vector<CaseOperand> results = {};
  /// True if the graph can differentiate the op, so that its gradient is tested.
  bool differentiable = false;
  /// False for a shorthand for which no device has a kernel.
  bool on_devices = true;
  /// True for a fused form, which the compiler chooses if the device has it. A device need not have it.
  bool optional = false;
  /// True for an op without kernels for GPUs.
  bool host_only = false;

  /// ‖device - reference‖ <= tolerance · ‖reference‖ for each result in f32. The reference computes in f64 from the
  /// same f32 operands. The default is about sixteen roundings (2^-24 each). Elementwise functions and short or blocked
  /// sums of random numbers stay well below it. A single wrong element in a million exceeds it.
  double tolerance = 1e-6;
  /// How often the op may round values to the type of its operands before it sums them, such as hidden values of a
  /// block. Each adds a rounding to the tolerance.
  int inner_roundings = 0;
};

/// The case as a device gets it. `real`: the type that replaces f32.
OpInstance make_instance(const OpCase& op_case, const OpRegistry& registry, DType real);

/// The initial values of a case, equal for every device.
struct CaseValues {
  std::vector<std::vector<double>> operands;
  /// Previous values of the results. NaN if the kernel must write every element.
  std::vector<std::vector<double>> before;
};

/// Makes values that the types of `instance` represent exactly. `reference` computes those that are results of other
/// ops.
CaseValues make_values(const OpCase& op_case, const OpInstance& instance, Device& reference);

/// Runs the case and returns its results. Checks memory around all results and the workspace. \throws RuntimeError if
/// the kernel wrote outside of them.
std::vector<std::vector<double>> run_case(const OpCase& op_case, const OpInstance& instance, const CaseValues& values,
                                          Device& device);

/// Numbers that depend only on `name` and are exact in `type`.
std::vector<double> random_values(const std::string& name, std::int64_t count, Fill fill, DType type = DType::f32);

/// The document of a token of a sequence, which has about five documents. `key`: random::stream_key() of some name.
double document_of(std::uint64_t key, std::int64_t sequence, std::int64_t token, std::int64_t length);

/// A scalar in f64.
inline const CaseOperand kScalar{{}, Fill::positive, DType::f64};

/// Number of elements of a tensor of `dims`.
std::int64_t elements_of(const DimSizes& sizes, const Dims& dims);

/// The whole table.
const std::vector<OpCase>& all_op_cases();

// The families of the table.
std::vector<OpCase> linear_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> program_op_cases();
std::vector<OpCase> quantization_cases();
std::vector<OpCase> weight_block_cases();
std::vector<OpCase> adafactor_cases();
std::vector<OpCase> compress_cases();
std::vector<OpCase> rms_norm_cases();
std::vector<OpCase> gate_cases();
std::vector<OpCase> rope_cases();
std::vector<OpCase> soft_cap_cases();
std::vector<OpCase> cached_attention_cases();
std::vector<OpCase> image_cases();
std::vector<OpCase> routing_cases();
std::vector<OpCase> experts_cases();

/// A rank's shard of a dimension.
IndexMap shard(std::int64_t size, int count, int index, Distribution distribution = Distribution::block);

void PrintTo(const OpCase& op_case, std::ostream* out);

}  // namespace strata::testing

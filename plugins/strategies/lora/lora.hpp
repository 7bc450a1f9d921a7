#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/graph.hpp"
#include "strata/internal/weight_blocks.hpp"
#include "strata/op.hpp"

namespace lora {

/// Initial values of A. B starts at zero, so training starts from the values of the base model.
enum class Start : std::uint8_t {
  kaiming,  ///< uniform within ±1/√(inputs)
  normal    ///< normal with deviation 1/rank
};

struct Settings {
  /// Patterns of parameters that get adapters. Empty: all that only matrix products read.
  std::vector<std::string> targets;
  /// Patterns of parameters that are trained besides the adapters.
  std::vector<std::string> train;
  std::int64_t rank = 8;
  /// Factor of the adapters' product.
  double scale = 2;
  double dropout = 0;
  /// Whether weight decay applies to the adapters of a parameter to which it applies.
  bool decay = false;
  Start start = Start::kaiming;
  /// How frozen matrices are stored. Empty: as the model has them.
  std::optional<strata::WeightBlocks> base = std::nullopt;
  /// Patterns of the matrices that are stored in `base`. Empty: all that only matrix products read.
  std::vector<std::string> base_targets = {};
};

/// True for a node that dequantizes a quantized parameter.
[[nodiscard]] bool is_dequantization(const strata::Node& node);

/// Replaces each of the `names`d parameters by two, its codes and its scales, and by a node that dequantizes them in
/// every block that reads it. The blocks lie along the dimension that most parameters have, such as "embed", because
/// strategies shard the others.
void quantize_parameters(strata::Graph& graph, const strata::OpRegistry& registry,
                         const std::vector<std::string>& names, const strata::WeightBlocks& blocks);

/// Makes the backward pass dequantize parameters again, so that no dequantized parameter is kept for it.
void dequantize_again(strata::Graph& graph);

/// One node that reads a parameter, directly or through a cast.
struct ParameterUse {
  int node = -1;
  int operand = 0;
};

/// The two sides of a parameter that products read as a matrix.
struct MatrixSides {
  strata::Dims contracted;
  strata::Dims outputs;

  bool operator==(const MatrixSides&) const = default;
};

/// The nodes of a forward graph that read each parameter. The graph outlives it.
class ParameterUses {
 public:
  explicit ParameterUses(const strata::Graph& graph);

  [[nodiscard]] const std::vector<ParameterUse>& of(const strata::Parameter& parameter) const;
  /// True if only matrix products read the parameter.
  [[nodiscard]] bool is_matrix_of_products(const strata::Parameter& parameter) const;
  /// The sides of a parameter that only products and lookups read. Else empty, and `reason` says why.
  [[nodiscard]] std::optional<MatrixSides> sides(const strata::Parameter& parameter, std::string& reason) const;

 private:
  [[nodiscard]] std::optional<MatrixSides> sides(const strata::Dims& dims, const ParameterUse& use,
                                                 std::string& reason) const;

  const strata::Graph& graph_;
  std::map<int, std::vector<ParameterUse>> uses_;  // by the parameter's node
};

/// The names of A and B of a parameter. In PEFT's files the module `h.0.q` of the parameter `h.0.q.weight` has
/// `h.0.q.lora_A.weight`.
[[nodiscard]] std::string name_of_a(const std::string& parameter);
[[nodiscard]] std::string name_of_b(const std::string& parameter);

/// Adds adapters to a forward graph.
class AdapterBuilder {
 public:
  AdapterBuilder(strata::Graph& graph, const strata::OpRegistry& registry, const Settings& settings);

  /// Adds A and B for a parameter with these sides, read by `uses`.
  void add(const strata::Parameter& parameter, const MatrixSides& sides, const std::vector<ParameterUse>& uses);
  /// Inserts the adapters' nodes behind the readers of their parameters.
  void place();

 private:
  /// The parameters of one adapter.
  struct Adapter {
    strata::Value a;
    strata::Value b;
    strata::Dims contracted;
  };

  strata::Value add_parameter(const std::string& name, const strata::Dims& dims, const strata::Parameter& of,
                              strata::Initialization initialization);
  [[nodiscard]] strata::Initialization start_of_a(const strata::Dims& contracted) const;
  /// Emits scale · (x A) B for one reader, and its sum with the reader's result.
  strata::Value adapted(const strata::Node& reader, const Adapter& adapter, int operand);
  strata::Value product(strata::Value x, strata::Value weight, strata::Attributes attributes,
                        const strata::Node& reader, const std::string& suffix);
  strata::Value emit(const std::string& op, std::vector<strata::Value> operands, strata::Attributes attributes,
                     const strata::Node& reader, const std::string& suffix);
  strata::Value in_type_of(strata::Value value, strata::DType type, const strata::Node& reader,
                           const std::string& suffix);

  strata::Graph& graph_;
  const strata::OpRegistry& registry_;
  const Settings& settings_;
  strata::Dim rank_;
  std::vector<Adapter> adapters_;
  /// By reader: the position in `adapters_`, and the operand that is the parameter.
  std::map<int, std::pair<std::size_t, int>> readers_;
  std::vector<strata::Node> leaves_;
  std::vector<strata::Node> placed_;
};

}  // namespace lora

#pragma once

#include <map>
#include <vector>

#include "parameter_uses.hpp"
#include "settings.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace lora {

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

#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "files/text_format.hpp"
#include "runtime/tensor_part.hpp"
#include "setup/run_setup.hpp"
#include "strata/graph.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// Problems that are reported together, one line each. Many of them are counted instead of listed.
class ProblemList {
 public:
  void add(const std::string& problem) {
    if (++count_ <= kMost) text_ += "\n  " + message_text(problem, kLongest);
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::string text() const {
    return count_ <= kMost ? text_ : text_ + "\n  and " + std::to_string(count_ - kMost) + " more";
  }

 private:
  static constexpr std::size_t kMost = 30;
  /// Bytes of one. Names in files may have any length.
  static constexpr std::size_t kLongest = 240;

  std::string text_;
  std::size_t count_ = 0;
};

/// Shapes of the parameters that the model itself has and that checkpoints contain, by name. Parameters that
/// strategies add are not among them. `data`: sizes that the data fixed, where the model's options do not.
[[nodiscard]] std::map<std::string, Shape> model_parameters(const RunSetup& setup, const DimSizes& data = {});

/// The forward graph of the model, as the setup's strategies rewrite it.
[[nodiscard]] Graph model_graph(const RunSetup& setup, const DimSizes& data = {});

/// Shapes of the parameters of `graph` that checkpoints contain, by name.
[[nodiscard]] std::map<std::string, Shape> stored_shapes(const Graph& graph);

/// Lists the parameters of `shapes` whose tensors in a checkpoint are missing or have another shape. A tensor may hold
/// the values once, or once for each of several replicas, which train apart. Only parameters of `required` count as
/// missing. `owner`: the model that has the shapes, for messages.
[[nodiscard]] ProblemList misfits(const CheckpointReader& checkpoint, const std::map<std::string, Shape>& shapes,
                                  const std::map<std::string, Shape>& required, const std::string& owner);

/// \throws ConfigurationError that lists all differences if the checkpoint's parameters are not those of `graph`, a
/// model's graph as its strategies have rewritten it. Then the model would leave a part of the checkpoint out, for
/// example because it has fewer layers.
void require_parameters_of(const CheckpointReader& checkpoint, const Graph& graph);

}  // namespace strata::host

#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "simulate/instruction_times.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// Writes the first step of each rank as an execution trace of MLCommons Chakra, which ASTRA-sim reads.
///
/// - A node is an instruction in one run of its task. Its duration is the predicted one, without waits for others.
/// - Nodes of the compute stream depend on the node before (ctrl_deps). Nodes depend on the communication and the
///   transfers that their instruction waits for (data_deps). Communication depends on the instruction before it, and on
///   the communication of its group or of its channel before it.
/// - Attributes are those that ASTRA-sim's feeder reads: num_ops and tensor_size of computation; comm_type, comm_size
///   (bytes of the larger of input and output) and pg_name of collectives; comm_src, comm_dst, comm_size and comm_tag
///   of messages.
class ChakraTrace {
 public:
  ChakraTrace(const Compiled& compiled, const OpRegistry& registry, const TimedPrograms& timed)
      : compiled_(compiled), registry_(registry), timed_(timed) {}

  /// The trace of a rank: messages of et_def.proto, each after its length.
  [[nodiscard]] std::string of_rank(int rank);
  /// The groups of the traces so far, as ASTRA-sim's JSON: names of groups with their ranks.
  [[nodiscard]] std::string groups() const;

 private:
  friend class ChakraRank;
  /// The name of a group, which the first call gives it.
  std::string group_name(const std::vector<int>& ranks);

  const Compiled& compiled_;
  const OpRegistry& registry_;
  const TimedPrograms& timed_;
  std::map<std::vector<int>, std::string> groups_;
};

}  // namespace strata::host

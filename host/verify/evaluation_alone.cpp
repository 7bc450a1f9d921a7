#include "verify/evaluation_alone.hpp"

#include <memory>
#include <utility>

#include "runtime/initialize.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

Compiled compile_evaluation_alone(const RunSetup& setup, CompileRequest request) {
  request.mode = GraphMode::evaluation;
  return setup.compile(request);
}

double evaluate_alone(const Compiled& evaluation, Device& device, Communicator& communicator, std::uint64_t seed,
                      InputSource& inputs) {
  const int rank = communicator.rank();
  const Program& program = evaluation.program(rank);
  const MemoryPlan& plan = evaluation.plan(rank);
  Executor executor(program, plan, rank, seed, device, communicator, std::make_shared<Arena>(device, plan.arena_bytes),
                    make_offload_memory(plan.offload, offload_directory(program)), !evaluation.has_transfers());
  initialize(executor, seed);
  const Reports reports = executor.run(0, 0, inputs);
  return reports.at("loss") / reports.at("count");
}

}  // namespace strata::host

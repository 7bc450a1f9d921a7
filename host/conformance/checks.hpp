#pragma once

#include <string>

#include "conformance/check.hpp"
#include "conformance/subject.hpp"

namespace strata::host {

/// \file
/// The functions of the table of checks (Check::run). Each one's promise stands in check_table.cpp.

// Every plugin.
std::string check_record(Subject& subject);
std::string check_loading(Subject& subject);
std::string check_entry(Subject& subject);
std::string check_factory_kind(Subject& subject);
std::string check_options(Subject& subject);
std::string check_creation(Subject& subject);
std::string check_bad_options(Subject& subject);
std::string check_independence(Subject& subject);
std::string check_small_run(Subject& subject);

// Ops and kernels of any plugin.
std::string check_op_definitions(Subject& subject);
std::string check_op_gradients(Subject& subject);
std::string check_op_kernels(Subject& subject);

// Strategies.
std::string check_strategy_alone(Subject& subject);
std::string check_strategy_program(Subject& subject);
std::string check_strategy_memory(Subject& subject);
std::string check_strategy_traffic(Subject& subject);
std::string check_strategy_choices(Subject& subject);
std::string check_strategy_around_others(Subject& subject);
std::string check_strategy_inside_others(Subject& subject);
std::string check_strategy_in_f32(Subject& subject);

// Models.
std::string check_model_programs(Subject& subject);
std::string check_model_gradients(Subject& subject);
std::string check_model_accumulation(Subject& subject);
std::string check_model_stacks(Subject& subject);
std::string check_model_shrinking(Subject& subject);
std::string check_model_learning(Subject& subject);

// Optimizers.
std::string check_optimizer_definition(Subject& subject);
std::string check_optimizer_stacks(Subject& subject);
std::string check_optimizer_small_parameters(Subject& subject);
std::string check_optimizer_resumption(Subject& subject);
std::string check_optimizer_skipped_step(Subject& subject);

// Datasets.
std::string check_dataset_opening(Subject& subject);
std::string check_dataset_inputs(Subject& subject);
std::string check_dataset_repetition(Subject& subject);
std::string check_dataset_order(Subject& subject);
std::string check_dataset_threads(Subject& subject);
std::string check_dataset_wanted_inputs(Subject& subject);
std::string check_dataset_fingerprint(Subject& subject);
std::string check_dataset_splits(Subject& subject);
std::string check_dataset_bad_paths(Subject& subject);

// Communicators.
std::string check_collectives(Subject& subject);
std::string check_groups(Subject& subject);
std::string check_messages(Subject& subject);
std::string check_interleaving(Subject& subject);
std::string check_mismatches(Subject& subject);
std::string check_abort(Subject& subject);
std::string check_timeout(Subject& subject);
std::string check_communicator_stacks(Subject& subject);

// Devices.
std::string check_device_memory(Subject& subject);
std::string check_device_reductions(Subject& subject);
std::string check_device_stacks(Subject& subject);

// Strategies, models, optimizers, devices and communicators.
std::string check_determinism(Subject& subject);

}  // namespace strata::host

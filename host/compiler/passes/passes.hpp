#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/program/program_builder.hpp"
#include "compiler/stack.hpp"
#include "loading/plugin_call.hpp"
#include "strata/device.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// \file
/// The passes over a program, in the order in which compile() runs them.

/// Replaces every collective that a strategy claims (Strategy::convert) by the instructions that the strategy builds.
/// Instructions after its last communication wait for it, so they move to the first reader of the result. \return the
/// names of the strategies that converted a collective. \throws PluginError if no instruction of a
/// conversion writes the output, or if it does not communicate over exactly the collective's axes.
std::set<std::string> convert_collectives(ProgramBuilder& builder, const std::vector<NamedStrategy>& strategies);

/// Removes instructions whose results no instruction reads, such as conversions and clones that turned out unneeded.
/// Messages stay, because their counterparts on other ranks stay.
void remove_unused_instructions(Program& program);

/// Fuses instructions to save memory traffic:
/// - Pairs that a fused op names (OpDefinition::fusions), if the device has a kernel for the fused op that is not a
/// last resort.
/// - Sums whose terms are computed one after another: later terms accumulate into the first.
/// Runs before buffers share memory.
void fuse_instructions(Program& program, const OpRegistry& registry, const Device& device);

/// Splits collectives over the axes of `chunks` into parts along the batch, together with the matrix products
/// (OpDefinition::is_product) that produce or consume their data. While one part is communicated, the product of
/// another part is computed. Example with two parts: gather 0, gather 1, product 0, product 1, where gather 1 overlaps
/// with product 0. Parts are views, so other readers still see the whole buffer. Wang et al., "Overlap Communication
/// with Dependent Computation via Decomposition in Large Deep Learning Models", ASPLOS 2023.
void overlap_in_chunks(ProgramBuilder& builder, const OpRegistry& registry, const std::map<Axis, int>& chunks);

/// Splits the ops with routed rows (OpDefinition) whose rows come from the ranks along an axis of `chunks`, with the
/// collectives that bring the rows and take the results away. While the rows of one part travel, another part is
/// computed. Buffers of two parts take the place of those for all rows. Hwang et al., "Tutel: Adaptive
/// Mixture-of-Experts at Scale", MLSys 2023.
void split_routed_rows(ProgramBuilder& builder, const OpRegistry& registry, const std::map<Axis, int>& chunks);

/// Adds to every all_gather whose output only ops with routed rows read, and to every reduce_scatter of their results,
/// the marks of the rows, so that the communicator may leave out those that are skipped. The marks are there already,
/// because an all_to_all over the same ranks exchanges them for the ops.
void mark_routed_rows(Program& program, const OpRegistry& registry);

/// Lets collectives of activations start before matrix products on which they do not depend, so that the products hide
/// them. A collective passes products of its block until those that it has passed would take as long as the collective
/// on a current GPU. The instructions on which it depends move with it, but it passes no product on which it depends.
/// Example: the backward pass of tensor parallelism gathers an input again for a weight's gradient. The gather starts
/// before the product that computes the input's gradient. The reduction of that gradient starts before the product that
/// computes the weight's gradient.
void start_collectives_early(Program& program, const OpRegistry& registry);

/// Lets results reuse the memory of operands that no later instruction reads, if the op allows it. An all_reduce always
/// works in place.
void reuse_operands_in_place(Program& program, const OpRegistry& registry);

/// Asks the device for the kernel of every compute instruction and adds the kernel's workspace. Runs after the last
/// phase that adds instructions. \throws PluginError of the device's `origin` if it has no kernel for an instruction.
void add_workspaces(ProgramBuilder& builder, const Device& device, const PluginOrigin& origin);

/// Adds to every instruction the asynchronous buffers that it must wait for. An instruction waits for a buffer in
/// flight that it accesses if the communication writes the buffer, or if the instruction writes it. It also waits if it
/// is the last access of a buffer that a collective or a transfer reads, so that the memory can be reused. Reading
/// never waits for a send. Existing waits stay, and count as accesses. Collectives do not wait for each other, because
/// they run in the order in which they start. Messages and transfers have no order.
void insert_waits(Program& program);

/// Adds waits for sends, so that the memory of sent buffers can be reused within the step. A send is complete when its
/// peer has received, so a wait too early is a deadlock. The wait stands at the first instruction of the same
/// micro-batch that follows the last use of the memory and, by the StepClock of all ranks, the receive. Example: the
/// first stage of a pipeline waits for the send of an activation in the backward pass of the micro-batch, where a
/// gradient has arrived that the second stage computed from the activation. If there is no such instruction, the send
/// is in flight until the step's end.
///
/// Makes the channels between two classes of ranks one channel, if the messages of all of them are received in the
/// order in which they are sent. Example: 1F1B needs one channel for each direction between neighbours. A communicator
/// such as nccl has resources for each channel. `programs`: of all classes of ranks.
void settle_messages(std::vector<Program>& programs, const std::vector<int>& class_of_rank);

}  // namespace strata::host

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "compiler/check/communication_in_flight.hpp"
#include "compiler/check/program_verify.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/instructions.hpp"
#include "compiler/program/short_schedule.hpp"
#include "compiler/program/step_variants.hpp"

namespace strata::host {
namespace {

class Flow {
 public:
  Flow(const ProgramUnderCheck& check, std::uint64_t step_number)
      : check_(check), program_(check.program), step_number_(step_number), ranges_(check.program) {}

  void run() {
    for_each_instruction(program_, step_number_,
                         [this](const TaskInstance& at, std::size_t index, const Instruction& instruction) {
                           at_ = at;
                           index_ = index;
                           step(instruction);
                         });
    reports_are_written();
  }

 private:
  void step(const Instruction& instruction) {
    is_collective_ = instruction.is<Collective>();
    ranges_.for_each_wait(instruction, at_.micro_batch, [this](const ByteRange& range) { in_flight_.wait(range); });
    for (const BufferId id : instruction.inputs) read(id);
    for (const BufferId id : outputs_read(instruction, check_.registry)) read(id);
    for (const BufferId id : instruction.outputs) write(id);
    if (instruction.workspace() != -1) write(instruction.workspace());
    if (!is_asynchronous(instruction)) return;
    if (is_communication(instruction)) has_an_id_of_its_own(instruction);
    in_flight_.start(instruction, at_.micro_batch, ranges_,
                     [this, at = at_, index = index_] { return describe(program_, at, index); });
  }

  void read(BufferId id) {
    must_not_be_in_flight(id, false);
    const ByteRange range = ranges_.range(id, at_.micro_batch);
    if (ranges_.persistent(id)) {
      const auto writers = writers_.find(range.instance);
      if (writers == writers_.end()) return;  // persistent contents of the previous step
    }
    bool whole = false;
    BufferId part = -1;
    writers_[range.instance].for_each_run(range.begin, range.end,
                                          [&](std::int64_t, std::int64_t, const BufferId* last) {
                                            const BufferId writer = last == nullptr ? -1 : *last;
                                            written_by(writer, id);
                                            whole = whole || writer == id;
                                            if (writer != id && is_part(writer, id) && !is_flat(program_.buffer(id)))
                                              part = writer;
                                          });
    // A value written in parts must consist of parts only. A single part on top of the whole value overwrote it.
    if (whole && part >= 0) fail_overwritten(id, part);
  }

  void written_by(BufferId writer, BufferId id) const {
    if (writer == id) return;
    if (writer < 0) {
      if (ranges_.persistent(id)) return;
      check_.fail(at_, index_, "reads " + describe(program_, id) + before_it_was_written(id));
    }
    // The views of a flat bucket together are the bucket. Views of other buffers that share memory overwrite each
    // other.
    if (is_flat(program_.buffer(writer)) || is_flat(program_.buffer(id))) return;
    if (!is_part(writer, id) && !is_part(id, writer)) fail_overwritten(id, writer);
  }

  [[noreturn]] void fail_overwritten(BufferId id, BufferId writer) const {
    check_.fail(at_, index_,
                "reads " + describe(program_, id) + ", which was overwritten by " + describe(program_, writer) +
                    ", another view of the same memory");
  }

  /// True for a smaller view of `whole`: both are the same tensor, and not two tensors in the same memory.
  [[nodiscard]] bool is_part(BufferId view, BufferId whole) const {
    if (program_.buffer(view).bytes() >= program_.buffer(whole).bytes()) return false;
    while (view >= 0 && view != whole) view = program_.buffer(view).base;
    return view == whole;
  }

  [[nodiscard]] std::string before_it_was_written(BufferId id) const {
    return at_.micro_batch < 0 || ranges_.persistent(id)
               ? " before it was written"
               : " before it was written for micro-batch " + std::to_string(at_.micro_batch);
  }

  void write(BufferId id) {
    must_not_be_in_flight(id, true);
    const ByteRange range = ranges_.range(id, at_.micro_batch);
    writers_[range.instance].set(range.begin, range.end, id);
  }

  void must_not_be_in_flight(BufferId id, bool write) const {
    const ByteRange range = ranges_.range(id, at_.micro_batch);
    const std::optional<std::string> communication = in_flight_.conflict(range, write, is_collective_);
    if (!communication) return;
    check_.fail(at_, index_,
                std::string(write ? "writes " : "reads ") + describe(program_, id) +
                    " without waiting for the communication or transfer that uses it (" + *communication + ")");
  }

  void has_an_id_of_its_own(const Instruction& instruction) {
    // Messages of different peers may share an id.
    const auto* receive = instruction.as<Receive>();
    const int from = receive == nullptr ? 0 : receive->from.coordinate;
    const std::uint64_t id = communication_id(instruction);
    if (ids_.insert({id, at_.micro_batch, from}).second) return;
    check_.fail(at_, index_, "id " + std::to_string(id) + " names another communication of this program too");
  }

  /// Checks that a report with one instance per micro-batch is written for at least one micro-batch.
  void reports_are_written() const {
    for (const auto& [name, id] : program_.reports) {
      bool written = ranges_.persistent(id);
      for (int micro_batch = -1; micro_batch < program_.micro_batches && !written; ++micro_batch) {
        const ByteRange range = ranges_.range(id, micro_batch);
        const auto writers = writers_.find(range.instance);
        if (writers == writers_.end()) continue;
        written = true;
        writers->second.for_each_run(range.begin, range.end, [&](std::int64_t, std::int64_t, const BufferId* writer) {
          written = written && writer != nullptr;
        });
      }
      if (!written) check_.fail("report '" + name + "' reads " + describe(program_, id) + ", which is never written");
    }
  }

  const ProgramUnderCheck& check_;
  const Program& program_;
  /// The step to check.
  std::uint64_t step_number_;
  const BufferRanges ranges_;
  TaskInstance at_;
  std::size_t index_ = 0;
  bool is_collective_ = false;
  CommunicationInFlight in_flight_;
  /// For every byte of an instance, the buffer that wrote it last.
  std::unordered_map<std::int64_t, ByteMap<BufferId>> writers_;
  std::set<std::tuple<std::uint64_t, int, int>> ids_;
};

}  // namespace

void verify_flow(const ProgramUnderCheck& check) {
  const Program program = shortened(check.program, superfluous_micro_batches({&check.program}));
  const StepVariants steps = step_variants(program);
  for (const StepVariant& variant : steps.variants) {
    const std::string which = steps.describe(variant);
    const std::string after = check.after + (which.empty() ? "" : ", in " + which);
    Flow({program, check.registry, after, check.has_device}, variant.step).run();
  }
}

}  // namespace strata::host

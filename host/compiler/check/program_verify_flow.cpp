#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "compiler/check/communication_under_way.hpp"
#include "compiler/check/program_verify.hpp"
#include "compiler/passes/outputs_read.hpp"
#include "compiler/program/buffer_ranges.hpp"

namespace strata::host {
namespace {

/// Which buffer wrote every byte of one instance last.
class LastWriters {
 public:
  struct Segment {
    std::int64_t end = 0;
    BufferId writer = -1;
  };

  void write(std::int64_t begin, std::int64_t end, BufferId writer) {
    split(begin);
    split(end);
    segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(end));
    segments_[begin] = {end, writer};
  }

  /// Calls `visit` with the writer of every run in [begin, end), -1 where nothing was written.
  template <class Visit>
  void for_each_writer(std::int64_t begin, std::int64_t end, Visit visit) const {
    auto next = segments_.upper_bound(begin);
    if (next != segments_.begin() && std::prev(next)->second.end > begin) --next;
    while (begin < end) {
      const bool written = next != segments_.end() && next->first <= begin;
      visit(written ? next->second.writer : -1);
      if (written) {
        begin = next->second.end;
        ++next;
      } else {
        begin = next == segments_.end() ? end : next->first;
      }
    }
  }

 private:
  void split(std::int64_t at) {
    auto found = segments_.upper_bound(at);
    if (found == segments_.begin()) return;
    --found;
    if (found->first == at || found->second.end <= at) return;
    const Segment rest = found->second;
    found->second.end = at;
    segments_[at] = rest;
  }

  std::map<std::int64_t, Segment> segments_;
};

class Flow {
 public:
  explicit Flow(const ProgramUnderCheck& check) : check_(check), program_(check.program), ranges_(check.program) {}

  void run() {
    for_each_instruction(program_, [this](const TaskInstance& at, std::size_t index, const Instruction& instruction) {
      at_ = at;
      index_ = index;
      step(instruction);
    });
    reports_are_written();
  }

 private:
  void step(const Instruction& instruction) {
    is_collective_ = instruction.kind == InstructionKind::collective;
    for (const BufferId id : instruction.waits) under_way_.wait(ranges_.range(id, at_.micro_batch));
    for (const BufferId id : instruction.inputs) read(id);
    for (const BufferId id : outputs_read(instruction)) read(id);
    for (const BufferId id : instruction.outputs) write(id);
    if (instruction.workspace != -1) write(instruction.workspace);
    if (is_asynchronous(instruction)) start(instruction);
  }

  void read(BufferId id) {
    must_not_be_under_way(id, false);
    const ByteRange range = ranges_.range(id, at_.micro_batch);
    if (ranges_.persistent(id)) {
      const auto writers = writers_.find(range.instance);
      if (writers == writers_.end()) return;  // what the step before left
    }
    bool whole = false;
    BufferId part = -1;
    writers_[range.instance].for_each_writer(range.begin, range.end, [&](BufferId writer) {
      written_by(writer, id);
      whole = whole || writer == id;
      if (writer != id && is_part(writer, id) && !is_flat(program_.buffer(id))) part = writer;
    });
    // All of it is made of parts, or none: a part that came later belongs to something else.
    if (whole && part >= 0) fail_overwritten(id, part);
  }

  void written_by(BufferId writer, BufferId id) const {
    if (writer == id) return;
    if (writer < 0) {
      if (ranges_.persistent(id)) return;
      check_.fail(at_, index_, "reads " + describe(program_, id) + before_it_was_written(id));
    }
    // A bucket is made of the views in it; other views of the same memory replace each other.
    if (is_flat(program_.buffer(writer)) || is_flat(program_.buffer(id))) return;
    if (!is_part(writer, id) && !is_part(id, writer)) fail_overwritten(id, writer);
  }

  [[noreturn]] void fail_overwritten(BufferId id, BufferId writer) const {
    check_.fail(at_, index_,
                "reads " + describe(program_, id) + ", which was overwritten by " + describe(program_, writer) +
                    ", another view of the same memory");
  }

  /// True for a view that was made of `whole` and is smaller: the two are one tensor, not two in one place.
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
    must_not_be_under_way(id, true);
    const ByteRange range = ranges_.range(id, at_.micro_batch);
    writers_[range.instance].write(range.begin, range.end, id);
  }

  void must_not_be_under_way(BufferId id, bool write) const {
    const ByteRange range = ranges_.range(id, at_.micro_batch);
    const std::string* communication = under_way_.conflict(range, write, is_collective_);
    if (communication == nullptr) return;
    check_.fail(at_, index_,
                std::string(write ? "writes " : "reads ") + describe(program_, id) +
                    " without waiting for the communication or transfer that uses it (" + *communication + ")");
  }

  void start(const Instruction& instruction) {
    if (is_communication(instruction)) has_an_id_of_its_own(instruction);
    std::vector<CommunicationUnderWay::Use> uses;
    for (const BufferId id : instruction.inputs) uses.push_back({ranges_.range(id, at_.micro_batch), false});
    for (const BufferId id : instruction.outputs) uses.push_back({ranges_.range(id, at_.micro_batch), true});
    under_way_.start(describe(program_, at_, index_), is_collective_, std::move(uses));
  }

  void has_an_id_of_its_own(const Instruction& instruction) {
    // Messages from several peers may share an id.
    const int from = instruction.kind == InstructionKind::receive ? instruction.peer : 0;
    if (ids_.insert({instruction.id, at_.micro_batch, from}).second) return;
    check_.fail(at_, index_,
                "id " + std::to_string(instruction.id) + " names another communication of this program too");
  }

  /// A report that exists once a micro-batch must have been written for one of them.
  void reports_are_written() const {
    for (const auto& [name, id] : program_.reports) {
      bool written = ranges_.persistent(id);
      for (int micro_batch = -1; micro_batch < program_.micro_batches && !written; ++micro_batch) {
        const ByteRange range = ranges_.range(id, micro_batch);
        const auto writers = writers_.find(range.instance);
        if (writers == writers_.end()) continue;
        written = true;
        writers->second.for_each_writer(range.begin, range.end,
                                        [&](BufferId writer) { written = written && writer >= 0; });
      }
      if (!written) check_.fail("report '" + name + "' reads " + describe(program_, id) + ", which is never written");
    }
  }

  const ProgramUnderCheck& check_;
  const Program& program_;
  const BufferRanges ranges_;
  TaskInstance at_;
  std::size_t index_ = 0;
  bool is_collective_ = false;
  CommunicationUnderWay under_way_;
  std::unordered_map<std::int64_t, LastWriters> writers_;
  std::set<std::tuple<std::uint64_t, int, int>> ids_;
};

}  // namespace

void verify_flow(const ProgramUnderCheck& check) { Flow(check).run(); }

}  // namespace strata::host

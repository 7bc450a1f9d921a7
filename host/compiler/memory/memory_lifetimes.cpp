#include <algorithm>
#include <map>
#include <utility>

#include "compiler/memory/memory_packing.hpp"
#include "compiler/program/step_variants.hpp"

namespace strata::host {
namespace {

class Lifetimes {
 public:
  Lifetimes(const Program& program, const BufferRanges& ranges)
      : program_(program), ranges_(ranges), numbers_(program.buffers.size()) {}

  /// The union of the lifetimes in all variants of the step. A communication may stay in flight for longer if the
  /// instruction that waits for it is not executed.
  std::vector<Lifetime> run() {
    for (const StepVariant& variant : step_variants(program_).variants) run(variant.step);
    for (const auto& [name, id] : program_.reports) keep_to_the_end(id);
    return std::move(lifetimes_);
  }

 private:
  struct Communication {
    bool is_collective = true;
    std::vector<ByteRange> ranges;
  };

  void run(std::uint64_t step) {
    now_ = 0;
    for_each_instruction(program_, [&](const TaskInstance& at, std::size_t, const Instruction& instruction) {
      micro_batch_ = at.micro_batch;
      if (instruction.when.holds(step)) {
        ranges_.for_each_wait(instruction, micro_batch_, [this](const ByteRange& range) { wait(range); });
        use(instruction);
      }
      ++now_;
    });
    for (const Communication& communication : std::exchange(in_flight_, {})) end(communication);
  }

  void use(const Instruction& instruction) {
    const bool is_in_flight = is_asynchronous(instruction);
    if (is_in_flight) in_flight_.push_back({instruction.is<Collective>(), {}});
    for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId id : *operands) {
        touch(id);
        if (is_in_flight) in_flight_.back().ranges.push_back(ranges_.range(id, micro_batch_));
      }
    }
    if (instruction.workspace() != -1) touch(instruction.workspace());
  }

  void touch(BufferId id) {
    if (ranges_.persistent(id)) return;
    std::vector<int>& numbers = numbers_[static_cast<std::size_t>(ranges_.root(id))];
    if (numbers.empty()) numbers.resize(static_cast<std::size_t>(program_.micro_batches) + 1, -1);
    int& number = numbers[static_cast<std::size_t>(micro_batch_) + 1];
    if (number < 0) {
      number = static_cast<int>(lifetimes_.size());
      lifetimes_.push_back({program_.buffer(ranges_.root(id)).bytes(), now_, now_, ranges_.instance(id, micro_batch_)});
    }
    Lifetime& lifetime = lifetimes_[static_cast<std::size_t>(number)];
    lifetime.begin = std::min(lifetime.begin, now_);
    lifetime.end = std::max(lifetime.end, now_);
  }

  /// Completes the communication that uses bytes of `waited`, and the collectives before it, because collectives run in
  /// order.
  void wait(const ByteRange& waited) {
    const auto uses = [&](const Communication& each) {
      return std::ranges::any_of(each.ranges, [&](const auto& range) { return range.overlaps(waited); });
    };
    const auto last = std::find_if(in_flight_.rbegin(), in_flight_.rend(),
                                   [&](const Communication& each) { return each.is_collective && uses(each); });
    std::ptrdiff_t collectives = std::distance(last, in_flight_.rend());
    std::erase_if(in_flight_, [&](const Communication& each) {
      const bool in_order = collectives-- > 0 && each.is_collective;
      if (!in_order && !uses(each)) return false;
      end(each);
      return true;
    });
  }

  /// Extends the lifetimes of the communication's buffers to the last instruction before the one that is starting.
  void end(const Communication& communication) {
    for (const ByteRange& range : communication.ranges) extend(range.instance, now_ - 1);
  }

  void extend(std::int64_t instance, int last) {
    if (!has(instance)) return;
    Lifetime& lifetime = lifetimes_[static_cast<std::size_t>(numbers_[root(instance)][slot(instance)])];
    lifetime.end = std::max(lifetime.end, last);
  }

  [[nodiscard]] std::size_t root(std::int64_t instance) const {
    return static_cast<std::size_t>(ranges_.root_of_instance(instance));
  }
  [[nodiscard]] std::size_t slot(std::int64_t instance) const {
    return static_cast<std::size_t>(ranges_.micro_batch_of_instance(instance) + 1);
  }
  [[nodiscard]] bool has(std::int64_t instance) const {
    const std::vector<int>& numbers = numbers_[root(instance)];
    return !numbers.empty() && numbers[slot(instance)] >= 0;
  }

  /// Extends the lifetime of the instance that the host reads after the step.
  void keep_to_the_end(BufferId id) {
    int read = has(ranges_.instance(id, -1)) ? -1 : program_.micro_batches - 1;
    while (read > 0 && !has(ranges_.instance(id, read))) --read;
    extend(ranges_.instance(id, read), now_ - 1);
  }

  const Program& program_;
  const BufferRanges& ranges_;
  std::vector<Lifetime> lifetimes_;
  /// Of the lifetimes, by root buffer and micro-batch, those of prologue and epilogue first; -1: there is none.
  std::vector<std::vector<int>> numbers_;
  std::vector<Communication> in_flight_;
  int micro_batch_ = -1;
  int now_ = 0;
};

}  // namespace

std::vector<Lifetime> buffer_lifetimes(const Program& program, const BufferRanges& ranges) {
  return Lifetimes(program, ranges).run();
}

int find_slots(const std::vector<Lifetime>& lifetimes, const BufferRanges& ranges, int micro_batches, int least) {
  std::map<BufferId, std::vector<const Lifetime*>> by_buffer;
  for (const Lifetime& each : lifetimes) {
    if (ranges.micro_batch_of_instance(each.instance) >= 0) {
      by_buffer[ranges.root_of_instance(each.instance)].push_back(&each);
    }
  }
  for (auto& [buffer, instances] : by_buffer) {
    std::ranges::sort(instances, [](const auto* a, const auto* b) { return a->begin < b->begin; });
  }
  const auto are_enough = [&](int slots) {
    return std::ranges::all_of(by_buffer, [&](const auto& each) {
      std::vector<int> ends(static_cast<std::size_t>(slots), -1);
      for (const Lifetime* instance : each.second) {
        int& end = ends[static_cast<std::size_t>(ranges.micro_batch_of_instance(instance->instance) % slots)];
        if (instance->begin <= end) return false;
        end = instance->end;
      }
      return true;
    });
  };
  int slots = least;
  while (slots < micro_batches && !are_enough(slots)) ++slots;
  return slots;
}

}  // namespace strata::host

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// A run of bytes of one instance of a buffer's memory. An instance is the root buffer together with the micro-batch
/// that it belongs to; persistent buffers have one only.
struct ByteRange {
  std::int64_t instance = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] bool overlaps(const ByteRange& other) const {
    return instance == other.instance && begin < other.end && other.begin < end;
  }
};

/// Where every buffer lies in its root.
class BufferRanges {
 public:
  /// \throws VerificationError for a view of a buffer that is not there or of itself.
  explicit BufferRanges(const Program& program);

  [[nodiscard]] BufferId root(BufferId buffer) const { return roots_.at(static_cast<std::size_t>(buffer)).buffer; }
  /// First byte of `buffer` within its root.
  [[nodiscard]] std::int64_t begin(BufferId buffer) const { return roots_.at(static_cast<std::size_t>(buffer)).begin; }
  [[nodiscard]] bool persistent(BufferId buffer) const { return program_.buffer(root(buffer)).persistent; }

  /// What a task of `micro_batch` (-1: prologue, epilogue) means by `buffer`.
  [[nodiscard]] ByteRange range(BufferId buffer, int micro_batch) const;
  /// Number of the instance; below instance_count().
  [[nodiscard]] std::int64_t instance(BufferId buffer, int micro_batch) const;
  [[nodiscard]] std::int64_t instance_count() const;
  [[nodiscard]] BufferId root_of_instance(std::int64_t instance) const;
  [[nodiscard]] int micro_batch_of_instance(std::int64_t instance) const;
  /// "%7 'h.0.mlp' of micro-batch 2".
  [[nodiscard]] std::string describe_instance(std::int64_t instance) const;

 private:
  struct Root {
    BufferId buffer = -1;
    std::int64_t begin = 0;
  };

  const Program& program_;
  std::vector<Root> roots_;
};

/// True for buffers that are made of the views in them (buckets): one dimension without a meaning of its own.
[[nodiscard]] bool is_flat(const Buffer& buffer);

/// "%7 'h.0.mlp'".
[[nodiscard]] std::string describe(const Program& program, BufferId buffer);
/// "task 'forward', instruction 3 linear 'h.0.mlp'", with the micro-batch if it is not negative.
[[nodiscard]] std::string describe(const Program& program, const TaskInstance& at, std::size_t instruction);

/// Calls `visit` for every instruction in the order in which the rank starts them.
void for_each_instruction(
    const Program& program,
    const std::function<void(const TaskInstance& at, std::size_t index, const Instruction& instruction)>& visit);

}  // namespace strata::host

#pragma once

#include <cstdint>
#include <string>

#include "strata/export.hpp"
#include "strata/mesh.hpp"
#include "strata/program.hpp"

namespace strata {

/// Takes the instructions that a strategy builds. The contexts of its hooks derive from it.
class STRATA_API Emitter {
 public:
  virtual ~Emitter();

  [[nodiscard]] virtual const Mesh& mesh() const = 0;
  /// Prefix for names of instructions and buffers, such as "bucket 3".
  [[nodiscard]] virtual const std::string& label() const = 0;
  /// Adds a flat buffer that lives from its first write to its last use.
  virtual BufferId add_flat(const std::string& name, DType dtype, std::int64_t elements) = 0;
  /// The id of a communication. A label has the same id on every rank.
  virtual std::uint64_t communication_id(const std::string& label) = 0;
  /// Appends an instruction.
  virtual void emit(Instruction instruction) = 0;
};

}  // namespace strata

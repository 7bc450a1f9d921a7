#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "compiler/check/program_check.hpp"
#include "strata/program.hpp"

namespace strata::host::test {

/// The storage of one tensor in a layout.
struct StoredTensor {
  std::string name;
  std::vector<ShardedDim> dims;
  DType dtype = DType::f32;
  /// The flat bucket of the tensor, shared by all tensors with the same name here. Empty: none.
  std::string bucket = {};
  std::optional<FlatSharding> sharding = {};
  /// The optimizer's states and their types.
  std::map<std::string, DType> states = {{"first_moment", DType::f32}};
  bool frozen = false;
};

/// Makes the program of a class of ranks that only store tensors.
class StorageProgram {
 public:
  StorageProgram(const Mesh& mesh, const std::vector<StoredTensor>& tensors) {
    program_.mesh = mesh;
    for (const StoredTensor& tensor : tensors) add(tensor);
  }

  [[nodiscard]] Program take() { return std::move(program_); }

 private:
  void add(const StoredTensor& tensor) {
    StoredParameter parameter;
    parameter.name = tensor.name;
    parameter.dims = tensor.dims;
    parameter.sharding = tensor.sharding;
    if (tensor.frozen) parameter.role = ParameterRole::frozen;
    Shape shape;
    for (const ShardedDim& dim : tensor.dims) {
      shape.push_back(index_map(dim, program_.mesh, program_.mesh.coordinates(0)).local_size());
    }
    const auto& flat = tensor.sharding;
    const Shape piece = flat ? Shape{flat->elements / program_.mesh.size(flat->axes)} : shape;
    if (!flat) {
      parameter.value = add_buffer(tensor.name, tensor.dtype, shape);
    } else if (flat->values) {
      parameter.value = shared_buffer(tensor.bucket, tensor.dtype, piece);
    } else {
      const BufferId bucket = shared_buffer(tensor.bucket, tensor.dtype, {flat->elements});
      parameter.value = add_buffer(tensor.name, tensor.dtype, shape);
      program_.buffers.back().base = bucket;
      program_.buffers.back().offset = flat->offset;
    }
    for (const auto& [state, dtype] : tensor.states) {
      parameter.states[state] = flat ? shared_buffer(tensor.bucket + "." + state, dtype, piece)
                                     : add_buffer(tensor.name + "." + state, dtype, shape);
    }
    program_.parameters.push_back(std::move(parameter));
  }

  BufferId add_buffer(const std::string& name, DType dtype, Shape shape) {
    Buffer buffer;
    buffer.id = static_cast<BufferId>(program_.buffers.size());
    buffer.name = name;
    buffer.dtype = dtype;
    buffer.shape = std::move(shape);
    buffer.persistent = true;
    program_.buffers.push_back(std::move(buffer));
    return program_.buffers.back().id;
  }

  BufferId shared_buffer(const std::string& name, DType dtype, Shape shape) {
    const auto found = shared_.find(name);
    if (found != shared_.end()) return found->second;
    return shared_[name] = add_buffer(name, dtype, std::move(shape));
  }

  Program program_;
  std::map<std::string, BufferId> shared_;
};

/// Ranks of one mesh that hold tensors, with memory to read and write.
class FakeRanks {
 public:
  FakeRanks(const Mesh& mesh, const std::vector<StoredTensor>& tensors)
      : FakeRanks(mesh, {tensors}, [](const Coordinates&) { return 0; }) {}
  /// The ranks of class i (see `class_of`) hold tensors[i].
  FakeRanks(const Mesh& mesh, const std::vector<std::vector<StoredTensor>>& tensors,
            const std::function<int(const Coordinates&)>& class_of) {
    for (const auto& each : tensors) programs_.push_back(StorageProgram(mesh, each).take());
    ranks_.mesh = mesh;
    for (int rank = 0; rank < mesh.rank_count(); ++rank) {
      const Program& program = programs_.at(static_cast<std::size_t>(class_of(mesh.coordinates(rank))));
      ranks_.programs.push_back(&program);
      auto& memory = memory_.emplace_back();
      for (const Buffer& buffer : program.buffers) {
        if (buffer.base < 0) memory[buffer.id].resize(static_cast<std::size_t>(buffer.bytes()), kGarbage);
      }
    }
  }

  [[nodiscard]] const RankPrograms& programs() const { return ranks_; }

  /// Called for each stored element with the tensor's name in a checkpoint, the element's row-major global index, its
  /// address and its type.
  using VisitElement = std::function<void(const std::string&, std::uint64_t, void*, DType)>;

  void for_each_element(const VisitElement& visit) {
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      for (const StoredParameter& parameter : ranks_.programs[rank]->parameters) {
        const bool is_piece = parameter.sharding && parameter.sharding->values;
        visit_buffer(rank, parameter, parameter.name, parameter.value, is_piece, visit);
        for (const auto& [state, buffer] : parameter.states) {
          const std::string name = "optimizer/" + state + "/" + parameter.name;
          visit_buffer(rank, parameter, name, buffer, parameter.sharding.has_value(), visit);
        }
      }
    }
  }

  /// Sets every element of every tensor to a value that is derived from its name and global index.
  void fill() {
    for_each_element([](const std::string& name, std::uint64_t index, void* element, DType dtype) {
      const std::uint64_t value = value_of(name, index);
      std::memcpy(element, &value, size_of(dtype));
    });
  }
  /// Number of elements that differ from the values of fill(), and of padding bytes in flat buckets that are not zero.
  [[nodiscard]] std::int64_t count_wrong() {
    std::int64_t wrong = 0;
    auto saved = memory_;
    for_each_element([&](const std::string& name, std::uint64_t index, void* element, DType dtype) {
      const std::uint64_t value = value_of(name, index);
      wrong += std::memcmp(element, &value, size_of(dtype)) == 0 ? 0 : 1;
      std::memset(element, 0, size_of(dtype));
    });
    // The remaining bytes are padding.
    for (const auto& memory : memory_) {
      for (const auto& [buffer, bytes] : memory)
        wrong += std::ssize(bytes) - std::count(bytes.begin(), bytes.end(), std::byte{0});
    }
    memory_ = std::move(saved);
    return wrong;
  }

  void write(const CheckpointStore& store, const RunState& run, const std::filesystem::path& base = {}) {
    const CheckpointPlan plan(ranks_);
    CheckpointWriter writer(store, plan, run, "test", base);
    writer.begin();
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      writer.write_rank(static_cast<int>(rank), [&](const BufferSlice& slice, void* host) {
        std::memcpy(host, element(rank, slice.buffer, slice.begin), bytes_of(rank, slice));
      });
    }
    (void)writer.commit();
  }
  void restore(const CheckpointReader& reader) {
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      reader.restore(*ranks_.programs[rank], static_cast<int>(rank), [&](const BufferSlice& slice, const void* host) {
        std::memcpy(element(rank, slice.buffer, slice.begin), host, bytes_of(rank, slice));
      });
    }
  }

 private:
  static constexpr std::byte kGarbage{0xA5};

  static std::uint64_t value_of(const std::string& name, std::uint64_t index) {
    return (std::hash<std::string>{}(name) ^ index) * 0x9E3779B97F4A7C15U | 1U;
  }

  /// Visits elements by definition: every element of the rank's block, and for a piece those whose offset in the bucket
  /// is within the piece.
  void visit_buffer(std::size_t rank, const StoredParameter& parameter, const std::string& name, BufferId buffer,
                    bool is_piece, const VisitElement& visit) {
    const Program& program = *ranks_.programs[rank];
    const Coordinates coordinates = program.mesh.coordinates(static_cast<int>(rank));
    std::vector<IndexMap> dims;
    std::int64_t elements = 1;
    for (const ShardedDim& dim : parameter.dims) {
      dims.push_back(index_map(dim, program.mesh, coordinates));
      elements *= dims.back().local_size();
    }
    std::int64_t first = 0;
    std::int64_t size = elements;
    std::int64_t index = 0;
    if (is_piece) {
      for (const Axis& axis : parameter.sharding->axes) index = index * program.mesh.size(axis) + coordinates.at(axis);
      size = parameter.sharding->elements / program.mesh.size(parameter.sharding->axes);
      first = parameter.sharding->offset;
    }
    const DType dtype = program.buffer(buffer).dtype;
    std::byte* memory = element(rank, buffer, 0);
    for (std::int64_t local = 0; local < elements; ++local) {
      const std::int64_t place = first + local;
      if (place / size != index) continue;
      visit(name, global_index(dims, local), memory + static_cast<std::size_t>(place % size) * size_of(dtype), dtype);
    }
  }

  [[nodiscard]] std::byte* element(std::size_t rank, BufferId id, std::int64_t index) {
    const Program& program = *ranks_.programs[rank];
    const Buffer& buffer = program.buffer(id);
    auto& bytes = memory_[rank].at(program.root(id));
    return bytes.data() + static_cast<std::size_t>(buffer.offset + index) * size_of(buffer.dtype);
  }
  [[nodiscard]] std::size_t bytes_of(std::size_t rank, const BufferSlice& slice) const {
    return static_cast<std::size_t>(slice.elements) * size_of(ranks_.programs[rank]->buffer(slice.buffer).dtype);
  }

  /// The row-major global index of a block's row-major local index.
  static std::uint64_t global_index(const std::vector<IndexMap>& dims, std::int64_t local) {
    std::int64_t global = 0;
    std::int64_t pitch = 1;
    for (std::size_t i = dims.size(); i-- > 0;) {
      global += pitch * dims[i].global_index(local % dims[i].local_size());
      pitch *= dims[i].global_size;
      local /= dims[i].local_size();
    }
    return static_cast<std::uint64_t>(global);
  }

  std::vector<Program> programs_;
  RankPrograms ranks_;
  std::vector<std::map<BufferId, std::vector<std::byte>>> memory_;
};

}  // namespace strata::host::test

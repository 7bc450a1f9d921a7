#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/program_check.hpp"
#include "strata/program.hpp"
#include "train/checkpoint.hpp"

namespace strata::host::test {

/// How one tensor is stored in some layout.
struct StoredTensor {
  std::string name;
  std::vector<ShardedDim> dims;
  DType dtype = DType::f32;
};

/// Ranks of one mesh that hold tensors and nothing else, with memory to read and write.
class FakeRanks {
 public:
  FakeRanks(Mesh mesh, const std::vector<StoredTensor>& tensors) {
    program_.mesh = std::move(mesh);
    for (const StoredTensor& tensor : tensors) add(tensor);
    ranks_.mesh = program_.mesh;
    ranks_.programs.assign(static_cast<std::size_t>(program_.mesh.rank_count()), &program_);
    for (int rank = 0; rank < program_.mesh.rank_count(); ++rank) {
      auto& memory = memory_.emplace_back();
      for (const Buffer& buffer : program_.buffers) memory[buffer.id].resize(static_cast<std::size_t>(buffer.bytes()));
    }
  }

  [[nodiscard]] const RankPrograms& programs() const { return ranks_; }
  [[nodiscard]] const Program& program() const { return program_; }

  /// Gives every element of every tensor a value made of its name and global place.
  void fill() {
    each_element([](const std::string& name, std::uint64_t index, void* element, std::size_t bytes) {
      const std::uint64_t value = value_of(name, index);
      std::memcpy(element, &value, bytes);
    });
  }
  /// Elements that have another value than fill() gives.
  [[nodiscard]] std::int64_t count_wrong() {
    std::int64_t wrong = 0;
    each_element([&](const std::string& name, std::uint64_t index, void* element, std::size_t bytes) {
      const std::uint64_t value = value_of(name, index);
      wrong += std::memcmp(element, &value, bytes) == 0 ? 0 : 1;
    });
    return wrong;
  }

  void write(const CheckpointStore& store, const RunState& run) const {
    const auto plan = plan_checkpoint(ranks_);
    CheckpointWriter writer(store, plan, run, "test");
    writer.begin();
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      writer.write_rank(static_cast<int>(rank), [&](BufferId buffer, void* host) {
        const auto& bytes = memory_[rank].at(buffer);
        std::memcpy(host, bytes.data(), bytes.size());
      });
    }
    (void)writer.commit();
  }
  void restore(const CheckpointReader& reader) {
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      reader.restore(program_, static_cast<int>(rank), [&](BufferId buffer, const void* host) {
        auto& bytes = memory_[rank].at(buffer);
        std::memcpy(bytes.data(), host, bytes.size());
      });
    }
  }

 private:
  static std::uint64_t value_of(const std::string& name, std::uint64_t index) {
    return (std::hash<std::string>{}(name) ^ index) * 0x9E3779B97F4A7C15U | 1U;
  }

  void add(const StoredTensor& tensor) {
    StoredParameter parameter;
    parameter.name = tensor.name;
    parameter.dims = tensor.dims;
    Shape shape;
    for (const ShardedDim& dim : tensor.dims) {
      shape.push_back(index_map(dim, program_.mesh, program_.mesh.coordinates(0)).local_size());
    }
    const auto add_buffer = [&](const std::string& name) {
      Buffer buffer;
      buffer.id = static_cast<BufferId>(program_.buffers.size());
      buffer.name = name;
      buffer.dtype = tensor.dtype;
      buffer.shape = shape;
      buffer.persistent = true;
      program_.buffers.push_back(buffer);
      return buffer.id;
    };
    parameter.value = add_buffer(tensor.name);
    parameter.states["first_moment"] = add_buffer(tensor.name + ".m");
    program_.parameters.push_back(std::move(parameter));
  }

  template <class Visit>
  void each_element(Visit&& visit) {
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      for (const PersistentTensor& tensor : persistent_tensors(program_)) {
        const auto dims = index_maps(tensor, program_.mesh, static_cast<int>(rank));
        const std::size_t bytes = size_of(tensor.dtype);
        std::byte* memory = memory_[rank].at(tensor.buffer).data();
        const auto count = static_cast<std::uint64_t>(element_count(local_shape(dims)));
        for (std::uint64_t local = 0; local < count; ++local) {
          visit(tensor.name, global_index(dims, local), memory + local * bytes, bytes);
        }
      }
    }
  }

  /// Row-major global index of a shard's row-major local one.
  static std::uint64_t global_index(const std::vector<IndexMap>& dims, std::uint64_t local) {
    std::uint64_t global = 0;
    std::uint64_t pitch = 1;
    for (std::size_t i = dims.size(); i-- > 0;) {
      const auto size = static_cast<std::uint64_t>(dims[i].local_size());
      global += pitch * static_cast<std::uint64_t>(dims[i].global_index(static_cast<std::int64_t>(local % size)));
      pitch *= static_cast<std::uint64_t>(dims[i].global_size);
      local /= size;
    }
    return global;
  }

  Program program_;
  RankPrograms ranks_;
  std::vector<std::map<BufferId, std::vector<std::byte>>> memory_;
};

}  // namespace strata::host::test

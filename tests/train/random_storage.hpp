#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "checkpoint_fixture.hpp"

namespace strata::host::test {

/// A mesh of three axes, and the same tensors in a random layout on it.
struct RandomStorage {
  Mesh mesh;
  std::vector<StoredTensor> tensors;
};

/// Shards dims over random axes. Puts tensors into flat buckets, which are sharded over axes that their tensors do not
/// use.
class RandomStorageMaker {
 public:
  explicit RandomStorageMaker(std::mt19937& random) : random_(random) {}

  RandomStorage run() {
    for (const char* name : {"a", "b", "c"}) axes_.push_back({name, 1 + below(3)});
    result_.mesh = Mesh(axes_);
    for (const char* name : {"wide", "first", "second"}) buckets_[name] = random_bucket();
    const std::vector<std::pair<std::string, Shape>> shapes{
        {"bias", {72}}, {"weight", {72, 144}}, {"cube", {36, 5, 24}}, {"gain", {36}}, {"scalar", {}}};
    for (const auto& [name, shape] : shapes) add(name, shape);
    for (StoredTensor& tensor : result_.tensors) {
      if (tensor.sharding) tensor.sharding->elements = padded(buckets_[tensor.bucket]);
    }
    return std::move(result_);
  }

 private:
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  FlatSharding random_bucket() {
    FlatSharding bucket;
    for (const MeshAxis& axis : axes_) {
      if (below(2) == 1) bucket.axes.push_back(axis.name);
    }
    std::shuffle(bucket.axes.begin(), bucket.axes.end(), random_);
    bucket.values = below(2) == 1;
    return bucket;
  }

  [[nodiscard]] std::int64_t padded(const FlatSharding& bucket) const {
    const std::int64_t count = result_.mesh.size(bucket.axes);
    return (bucket.elements + count - 1) / count * count;
  }

  void add(const std::string& name, const Shape& shape) {
    StoredTensor tensor{name, {}};
    const bool is_wide = name == "bias";
    if (is_wide) tensor.dtype = DType::f64;
    if (below(3) > 0) tensor.bucket = is_wide ? "wide" : below(2) == 1 ? "first" : "second";
    for (const std::int64_t size : shape) {
      tensor.dims.push_back({"d" + std::to_string(tensor.dims.size()), size, {}, false});
    }
    const Shape local = deal(tensor, shape);
    if (!tensor.bucket.empty()) {
      FlatSharding& bucket = buckets_[tensor.bucket];
      bucket.offset = bucket.elements + (below(2) == 1 ? below(50) : 0);
      bucket.elements = bucket.offset + element_count(local) + (below(4) == 0 ? below(2000) : 0);
      tensor.sharding = bucket;
    }
    result_.tensors.push_back(std::move(tensor));
  }

  /// \return the shape of a rank's block.
  Shape deal(StoredTensor& tensor, Shape shape) {
    const std::vector<Axis> used = tensor.bucket.empty() ? std::vector<Axis>{} : buckets_[tensor.bucket].axes;
    for (const MeshAxis& axis : axes_) {
      const auto dim = static_cast<std::size_t>(below(static_cast<int>(shape.size()) + 1));
      const bool zigzag = below(2) == 1;
      const bool is_used = std::find(used.begin(), used.end(), axis.name) != used.end();
      if (is_used || dim == shape.size() || shape[dim] % (axis.size * (zigzag ? 2 : 1)) != 0) continue;
      shape[dim] /= axis.size;
      tensor.dims[dim].axes.push_back({axis.name, zigzag ? Distribution::zigzag : Distribution::block});
    }
    return shape;
  }

  std::mt19937& random_;
  std::vector<MeshAxis> axes_;
  std::map<std::string, FlatSharding> buckets_;
  RandomStorage result_;
};

inline RandomStorage random_storage(std::mt19937& random) { return RandomStorageMaker(random).run(); }

}  // namespace strata::host::test

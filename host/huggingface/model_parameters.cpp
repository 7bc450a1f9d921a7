#include "huggingface/model_parameters.hpp"

#include <algorithm>

namespace strata::host {
namespace {

using Visit = std::function<void(std::int64_t, std::int64_t, std::int64_t)>;

/// Visits the runs of a part, dim by dim.
class RunWalk {
 public:
  RunWalk(const TensorPart& part, const Visit& visit) : part_(part), visit_(visit), pitch_(part.dims.size() + 1, 1) {
    for (std::size_t dim = part.dims.size(); dim-- > 0;) pitch_[dim] = pitch_[dim + 1] * part.dims[dim].global_size;
    // Trailing dims that are whole form one run with the dim before them.
    last_ = part.dims.size();
    while (last_ > 0 && is_whole(part.dims[last_ - 1])) --last_;
    if (last_ > 0) --last_;
  }

  void run() {
    if (part_.dims.empty()) return add(0, 1);
    walk(0, 0);
  }

 private:
  static bool is_whole(const IndexMap& map) {
    return map.segments.size() == 1 && map.segments.front().length == map.global_size;
  }

  void walk(std::size_t dim, std::int64_t global) {
    for (const IndexSegment& segment : part_.dims[dim].segments) {
      const std::int64_t begin = global + segment.global_begin * pitch_[dim + 1];
      if (dim == last_) {
        add(begin, segment.length * pitch_[dim + 1]);
        continue;
      }
      for (std::int64_t i = 0; i < segment.length; ++i) walk(dim + 1, begin + i * pitch_[dim + 1]);
    }
  }

  /// A run of the block, of which the part may have some elements only.
  void add(std::int64_t global, std::int64_t length) {
    const std::int64_t first = std::max<std::int64_t>(0, part_.begin - block_);
    const std::int64_t last = std::min(length, part_.end - block_);
    if (first < last) visit_(block_ + first - part_.begin, global + first, last - first);
    block_ += length;
  }

  const TensorPart& part_;
  const Visit& visit_;
  /// Distance in elements, in the whole tensor, between neighbouring indices of the dim before.
  std::vector<std::int64_t> pitch_;
  std::size_t last_ = 0;
  /// Elements of the block so far.
  std::int64_t block_ = 0;
};

CompileRequest model_request(const RunSetup& setup, const DimSizes& data) {
  DimSizes sizes = setup.model_sizes;
  sizes.insert(data.begin(), data.end());
  const DimSizes others = setup.sizes_without_data();
  sizes.insert(others.begin(), others.end());
  return setup.request(GraphMode::training, std::move(sizes));
}

}  // namespace

std::map<std::string, Shape> model_parameters(const RunSetup& setup, const DimSizes& data) {
  CompileRequest request = model_request(setup, data);
  request.strategies.clear();
  return stored_shapes(forward_graph(request));
}

Graph model_graph(const RunSetup& setup, const DimSizes& data) { return forward_graph(model_request(setup, data)); }

std::map<std::string, Shape> stored_shapes(const Graph& graph) {
  std::map<std::string, Shape> shapes;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.role != ParameterRole::constant) shapes[parameter.name] = graph.shape(parameter.value);
  }
  return shapes;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? " " : "") + std::to_string(size);
  return text + "]";
}

void for_each_run(const TensorPart& part, const Visit& visit) { RunWalk(part, visit).run(); }

}  // namespace strata::host

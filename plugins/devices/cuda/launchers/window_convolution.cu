#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/window_products.cuh"
#include "language/launch.hpp"
#include "launchers/convolution.hpp"
#include "launchers/permute.hpp"
#include "launchers/reduce_sources.hpp"

/// \file
/// Convolutions in 16 bits by tiles of matrix units. The operands of a product are read channels-last, so that the
/// pixel of a window has its terms in one place: images and weights are copied in that order first.
///
///   convolution                  y[image, out_channel, pixel] = w · windows of x
///   convolution_input_gradient   dx = wᵀ · windows of dy, for each phase of the stride
///   convolution_weight_gradient  dw = the sum over pixels of dy · windows of x, in parts that are added in order

namespace strata::cuda {
namespace {

/// The largest copies of a chunk of images, per multiprocessor.
constexpr std::int64_t kCopyBytes = 1 << 19;
/// Channels of a chunk of 16 bytes.
constexpr std::int64_t kChannels = 8;

/// Windows of the convolution along one axis of x.
WindowAxis forward_axis(int size, int result_size, int window, int stride, int padding) {
  return {.positions = result_size,
          .size = size,
          .step = stride,
          .first = -padding,
          .taps = window,
          .weights = window,
          .result_size = result_size};
}

/// The windows over dy that make the pixels phase, phase + stride, ... of dx. In the forward pass, window w reads pixel
/// p of x as its element p + padding - w · stride.
WindowAxis gradient_axis(int size, int dy_size, int window, int stride, int padding, int phase) {
  const int first_weight = (phase + padding) % stride;
  return {.positions = (size - phase + stride - 1) / stride,
          .size = dy_size,
          .first = (phase + padding) / stride,
          .taps = first_weight < window ? (window - first_weight + stride - 1) / stride : 0,
          .tap_step = -1,
          .weights = window,
          .first_weight = first_weight,
          .weight_step = stride,
          .result_size = size,
          .first_result = phase,
          .result_step = stride};
}

/// Reorders [images, channels, pixels] to [images, pixels, channels].
devices::Permutation channels_last(std::int64_t images, std::int64_t channels, std::int64_t pixels) {
  return {{images, pixels, channels}, {channels * pixels, 1, pixels}};
}

/// What is prepared for a number of images.
struct Copies {
  std::int64_t images = 0;
  PermuteFunction x = {};
  PermuteFunction dy = {};
};

template <class T>
class WindowConvolution {
 public:
  WindowConvolution(const OpInstance& op, Pass pass, const CudaEnvironment& environment)
      : of_(convolution_of(op, pass)),
        pass_(pass),
        result_(op.results[0].dtype),
        accumulate_(op.accumulate),
        chunks_(of_.batch,
                std::max(reads_x() ? bytes_of(of_.type, of_.x_elements()) : 0,
                         reads_dy() ? bytes_of(of_.type, of_.y_elements()) : 0),
                kCopyBytes * environment.multiprocessors()) {
    const ImageWindows& windows = of_.windows;
    chunks_.prepare([&](std::int64_t images) {
      Copies copies{.images = images};
      const std::int64_t x_pixels = std::int64_t{windows.height} * windows.width;
      if (reads_x()) copies.x = permute(channels_last(images, windows.channels, x_pixels));
      if (reads_dy()) copies.dy = permute(channels_last(images, of_.out_channels, of_.pixels()));
      return copies;
    });
    list_windows();
    x_ = workspace_.reserve(reads_x() ? bytes_of(of_.type, chunks_.images() * of_.x_elements()) : 0);
    dy_ = workspace_.reserve(reads_dy() ? bytes_of(of_.type, chunks_.images() * of_.y_elements()) : 0);
    if (pass == Pass::weight_gradient) {
      prepare_sums(environment);
    } else {
      prepare_weights();
    }
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    if (weights_) weights_(arguments.stream, arguments.operands[1], workspace_at<T>(arguments, w_));
    chunks_.for_each([&](const Copies& chunk, std::int64_t first) {
      const std::size_t dy = pass_ == Pass::weight_gradient ? 1 : 0;
      if (chunk.x) {
        chunk.x(arguments.stream, in<T>(arguments, 0) + first * of_.x_elements(), workspace_at<T>(arguments, x_));
      }
      if (chunk.dy) {
        chunk.dy(arguments.stream, in<T>(arguments, dy) + first * of_.y_elements(), workspace_at<T>(arguments, dy_));
      }
      if (pass_ == Pass::weight_gradient) return add_chunk(arguments, chunk.images, first == 0);
      for (const Windows& windows : windows_) multiply(arguments, windows, chunk.images, first);
    });
    if (convert_) convert_(arguments.stream, workspace_at<float>(arguments, parts_at_), arguments.results[0]);
  }

 private:
  [[nodiscard]] bool reads_x() const { return pass_ != Pass::input_gradient; }
  [[nodiscard]] bool reads_dy() const { return pass_ != Pass::forward; }
  [[nodiscard]] PermuteFunction permute(const devices::Permutation& permutation) const {
    return prepare_permute(permutation, of_.type, of_.type, false);
  }

  void list_windows() {
    const ImageWindows& of = of_.windows;
    if (pass_ != Pass::input_gradient) {
      windows_.push_back({forward_axis(of.height, of.out_height, of.window_height, of.stride, of.padding),
                          forward_axis(of.width, of.out_width, of.window_width, of.stride, of.padding), of.channels});
      return;
    }
    for (int row = 0; row < std::min(of.stride, of.height); ++row) {
      for (int column = 0; column < std::min(of.stride, of.width); ++column) {
        windows_.push_back({gradient_axis(of.height, of.out_height, of.window_height, of.stride, of.padding, row),
                            gradient_axis(of.width, of.out_width, of.window_width, of.stride, of.padding, column),
                            static_cast<int>(of_.out_channels)});
      }
    }
  }

  /// Calls function.operator()<Tile>() with the smallest tile that has all rows, or else the largest tile.
  template <class Function>
  static void with_tile(std::int64_t rows, const Function& function) {
    if (rows <= MatrixTile<T, 64>::kRows) return function.template operator()<MatrixTile<T, 64>>();
    function.template operator()<MatrixTile<T>>();
  }

  void multiply(const KernelArguments& arguments, const Windows& windows, std::int64_t images,
                std::int64_t first) const {
    const bool is_forward = pass_ == Pass::forward;
    const std::int64_t rows = is_forward ? of_.out_channels : of_.windows.channels;
    const std::int64_t count = images * windows.positions();
    const auto multiply_to = [&]<class R>() {
      R* result = out<R>(arguments, 0) + first * (is_forward ? of_.y_elements() : of_.x_elements());
      // A run of results may have neither an end of an image nor gaps.
      const bool in_runs = windows.positions() == windows.result_pixels() &&
                           windows.positions() % MatrixTile<T>::kRun == 0 && is_aligned(result);
      with_tile(rows, [&]<class Tile>() {
        const Geometry geometry{
            {blocks_for(rows, Tile::kRows) * blocks_for(count, Tile::kSide)}, {Tile::kThreads}, Tile::kSharedBytes};
        launch(multiply_windows<T, Tile, R>, geometry, arguments.stream, windows, static_cast<int>(count),
               static_cast<int>(rows), workspace_at<T>(arguments, is_forward ? x_ : dy_),
               workspace_at<T>(arguments, w_), result, in_runs, accumulate_);
      });
    };
    if (result_ == DType::f32) return multiply_to.template operator()<float>();
    multiply_to.template operator()<T>();
  }

  void prepare_weights() {
    const std::int64_t channels = of_.windows.channels;
    const std::int64_t taps = of_.depth() / channels;
    weights_ = permute(pass_ == Pass::forward
                           ? channels_last(of_.out_channels, channels, taps)
                           : devices::Permutation{{channels, taps, of_.out_channels}, {taps, 1, of_.depth()}});
    w_ = workspace_.reserve(bytes_of(of_.type, of_.out_channels * of_.depth()));
  }

  /// Elements of dw, in the order of windows: [out_channels, taps, channels].
  [[nodiscard]] std::int64_t weight_elements() const { return of_.out_channels * of_.depth(); }

  /// The number of parts with which the sums take the least time, in stages of a block: blocks run in waves, each has a
  /// start and an end, and the sums of each part are stored and read again.
  [[nodiscard]] std::int64_t best_parts(std::int64_t stages, std::int64_t multiprocessors) const {
    constexpr std::int64_t kMostParts = 128;
    constexpr std::int64_t kStartAndEnd = 8;
    constexpr std::int64_t kSumsOfStage = 200000;
    std::int64_t tiles = 0;
    std::int64_t blocks = 0;  // at a time
    with_tile(of_.out_channels, [&]<class Tile>() {
      tiles = std::int64_t{blocks_for(of_.depth(), Tile::kSide)} * blocks_for(of_.out_channels, Tile::kRows);
      blocks = multiprocessors * (Tile::kRows == 64 ? 3 : 2);
    });
    const auto time = [&](std::int64_t parts) {
      return (tiles * parts + blocks - 1) / blocks * ((stages + parts - 1) / parts + kStartAndEnd) +
             parts * weight_elements() / kSumsOfStage;
    };
    std::int64_t best = 1;
    for (std::int64_t parts = 2; parts <= std::min(stages, kMostParts); ++parts) {
      if (time(parts) < time(best)) best = parts;
    }
    return best;
  }

  /// Divides the windows of a chunk into parts, so that there are tiles for all multiprocessors.
  void prepare_sums(const CudaEnvironment& environment) {
    const std::int64_t stages = blocks_for(chunks_.images() * of_.pixels(), MatrixTile<T>::kDepth);
    const std::int64_t parts = best_parts(stages, environment.multiprocessors());
    windows_of_part_ = (stages + parts - 1) / parts * MatrixTile<T>::kDepth;
    parts_ = blocks_for(chunks_.images() * of_.pixels(), windows_of_part_);
    // The sum comes before the parts.
    parts_at_ = workspace_.reserve(bytes_of(DType::f32, (parts_ + 1) * weight_elements()));
    const std::int64_t taps = of_.depth() / of_.windows.channels;
    convert_ = prepare_permute({{of_.out_channels, of_.windows.channels, taps}, {of_.depth(), 1, of_.windows.channels}},
                               DType::f32, result_, accumulate_);
  }

  void add_chunk(const KernelArguments& arguments, std::int64_t images, bool is_first) const {
    float* sum = workspace_at<float>(arguments, parts_at_);
    float* parts = sum + weight_elements();
    const Windows& windows = windows_.front();
    const std::int64_t count = images * windows.positions();
    const unsigned parts_here = blocks_for(count, windows_of_part_);
    with_tile(of_.out_channels, [&]<class Tile>() {
      const Geometry geometry{
          {blocks_for(of_.depth(), Tile::kSide), blocks_for(of_.out_channels, Tile::kRows), parts_here},
          {Tile::kThreads},
          Tile::kSharedBytes};
      launch(sum_window_products<T, Tile>, geometry, arguments.stream, windows, static_cast<int>(count),
             static_cast<int>(windows_of_part_), static_cast<int>(of_.out_channels), workspace_at<T>(arguments, x_),
             workspace_at<T>(arguments, dy_), parts);
    });
    std::vector<const void*> sources;
    if (!is_first) sources.push_back(sum);
    for (unsigned part = 0; part < parts_here; ++part) sources.push_back(parts + part * weight_elements());
    launch_reduce(arguments.stream, Reduction::sum, DType::f32, sum, sources, weight_elements());
  }

  Convolution of_;
  Pass pass_;
  DType result_;
  bool accumulate_;
  ImageChunks<Copies> chunks_;
  std::vector<Windows> windows_;
  PermuteFunction weights_;  // not for the gradient of weights
  PermuteFunction convert_;  // for it only
  std::int64_t windows_of_part_ = 0;
  std::int64_t parts_ = 0;
  WorkspacePlan workspace_;
  std::int64_t x_ = 0;
  std::int64_t dy_ = 0;
  std::int64_t w_ = 0;
  std::int64_t parts_at_ = 0;
};

}  // namespace

PreparedKernel prepare_window_convolution(const OpInstance& op, Pass pass, const CudaEnvironment& environment) {
  const bool is_bf16 = op.operands[0].dtype == DType::bf16;
  if (is_bf16) return devices::prepared<WindowConvolution<BFloat16>>(op, pass, environment);
  return devices::prepared<WindowConvolution<Float16>>(op, pass, environment);
}

bool takes_window_convolution(const OpInstance& op, Pass pass) {
  const Convolution of = convolution_of(op, pass);
  if (size_of(of.type) != 2) return false;
  const DType result = op.results[0].dtype;
  if (pass != Pass::weight_gradient && result != of.type && result != DType::f32) return false;
  const bool takes_x = pass == Pass::input_gradient || of.windows.channels % kChannels == 0;
  const bool takes_dy = pass == Pass::forward || of.out_channels % kChannels == 0;
  return takes_x && takes_dy;
}

}  // namespace strata::cuda

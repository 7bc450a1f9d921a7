#include "tokenizers/corpus/corpus_job.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "files/text_format.hpp"
#include "strata/error.hpp"
#include "strata/machine.hpp"
#include "strata/tensor.hpp"
#include "tokenizers/corpus/token_output.hpp"

namespace strata::host {
namespace {

using Clock = std::chrono::steady_clock;

/// Inputs up to this size have no more tokens than llm.c's header can count.
constexpr std::int64_t kMostHeaderBytes = std::int64_t{1} << 30U;
/// Bytes of text that wait for threads or for the tokens before them.
constexpr std::int64_t kMostBytesInFlight = std::int64_t{256} << 20U;
constexpr std::int64_t kMostNarrowTokens = 1 << 16;

/// Refuses a table, an array of documents, or an archive, each of which would be one long document.
void require_text(const DataFile& file) {
  const auto refuse = [&](const std::string& found) {
    throw ConfigurationError(
        "'" + file.path().string() + "': found " + found +
        "; accepted: text, or one JSON object per line in a file .jsonl or .ndjson, or of any name "
        "with --jsonl-field KEY");
  };
  std::string beginning(static_cast<std::size_t>(std::min<std::int64_t>(4096, file.bytes())), '\0');
  file.read(0, std::ssize(beginning), beginning.data());
  const std::string extension = file.path().extension().string();
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  if (extension == ".json" && first != std::string::npos && beginning[first] == '[') refuse("a JSON array");
  if (extension == ".json" && first != std::string::npos && beginning[first] == '{') refuse("a JSON object");
  if (extension == ".csv" || extension == ".tsv") refuse("a table, by its name " + extension);
  if (beginning.starts_with("PAR1")) refuse("a Parquet file");
  if (beginning.starts_with("\x1f\x8b") || beginning.starts_with("PK\x03\x04") ||
      beginning.starts_with("\x28\xb5\x2f\xfd")) {
    refuse("an archive");
  }
}

/// Threads that do tasks at the same time. Results come in the order of the tasks.
template <class Task, class Result>
class OrderedWorkers {
 public:
  using Work = std::function<Result(const Task& task)>;

  /// `make_work` is called in each thread, for what the thread keeps from task to task. \throws RuntimeError if a
  /// thread cannot start.
  OrderedWorkers(int threads, std::function<Work()> make_work) : make_work_(std::move(make_work)) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    } catch (const std::system_error& error) {
      throw RuntimeError("thread " + std::to_string(threads_.size() + 1) + " of " + std::to_string(threads) +
                         " cannot start: " + error.what());
    }
  }

  void add(Task task) {
    const auto shared = std::make_shared<Task>(std::move(task));
    Job job([this, shared](Work& work) {
      if (!work) work = make_work_();
      return work(*shared);
    });
    results_.emplace_back(shared, job.get_future());
    {
      const std::scoped_lock lock(mutex_);
      waiting_.push_back(std::move(job));
    }
    changed_.notify_one();
  }

  /// Number of tasks whose results have not been taken.
  [[nodiscard]] std::size_t size() const { return results_.size(); }

  /// Waits for the result of the first task. \throws what the task threw.
  std::pair<Task, Result> take() {
    auto [task, future] = std::move(results_.front());
    results_.pop_front();
    Result result = future.get();
    return {std::move(*task), std::move(result)};
  }

 private:
  using Job = std::packaged_task<Result(Work& work)>;

  void run(const std::stop_token& stop) {
    Work work;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, stop, [&] { return !waiting_.empty(); });
      if (stop.stop_requested()) return;
      Job job = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      job(work);
      lock.lock();
    }
  }

  std::function<Work()> make_work_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  /// Of the thread that adds and takes.
  std::deque<std::pair<std::shared_ptr<Task>, std::future<Result>>> results_;
  std::deque<Job> waiting_;
  std::vector<std::jthread> threads_;
};

/// A job with its files open and its choices made.
class CorpusRun {
 public:
  explicit CorpusRun(const CorpusJob& job) : job_(job), tokenizer_(load_tokenizer(job.tokenizer)) {
    for (const auto& input : job.inputs) {
      // An empty text is a document without tokens.
      std::error_code error;
      if (std::filesystem::is_regular_file(input, error) && std::filesystem::is_empty(input, error)) continue;
      inputs_.emplace_back(input);
      const std::string extension = input.extension().string();
      has_lines_.push_back(job.field || extension == ".jsonl" || extension == ".ndjson");
      if (!has_lines_.back()) require_text(inputs_.back());
      begins_.push_back(total_bytes_);
      total_bytes_ += inputs_.back().bytes();
    }
    begins_.push_back(total_bytes_);
    choose_frame();
    choose_type();
    result_.has_header =
        job.format == StoredFormat::llmc || (job.format == StoredFormat::automatic && total_bytes_ <= kMostHeaderBytes);
    choose_start();
  }

  CorpusResult run(const std::function<void(const CorpusProgress&)>& report) {
    TokenOutput output(job_.output, result_.type, result_.has_header, state_.tokens);
    if (state_.tokens == 0) write_state(job_.output, identity_, state_);
    CorpusReader reader(inputs_, has_lines_, state_.position);
    int threads = job_.threads;
    if (threads == 0) threads = usable_cores();
    const auto make_work = [this]() -> OrderedWorkers<CorpusChunk, ChunkTokens>::Work {
      auto encoder = std::make_shared<ChunkEncoder>(*tokenizer_, job_.special, frame_, job_.field.value_or("text"));
      return [this, encoder](const CorpusChunk& chunk) {
        return encoder->encode(chunk, inputs_[static_cast<std::size_t>(chunk.input)].path());
      };
    };
    OrderedWorkers<CorpusChunk, ChunkTokens> workers(threads, make_work);
    std::int64_t in_flight = 0;
    std::optional<CorpusChunk> next = reader.next();
    while (next || workers.size() > 0) {
      const bool has_room = workers.size() < static_cast<std::size_t>(2 * threads + 2) &&
                            (workers.size() == 0 || in_flight < kMostBytesInFlight);
      if (next && has_room) {
        in_flight += std::ssize(next->text);
        workers.add(std::move(*next));
        next = reader.next();
        continue;
      }
      const auto [chunk, tokens] = workers.take();
      in_flight -= std::ssize(chunk.text);
      output.append(tokens.tokens);
      state_.position = chunk.end;
      state_.documents += tokens.documents;
      state_.special_documents += tokens.special_documents;
      state_.tokens += std::ssize(tokens.tokens);
      keep_state(output);
      report(progress());
    }
    if (state_.tokens == 0) refuse_empty();
    output.finish();
    std::filesystem::remove(state_path(job_.output));
    result_.progress = progress();
    return result_;
  }

 private:
  [[noreturn]] void refuse_empty() const {
    std::vector<std::string> names;
    for (const auto& input : job_.inputs) names.push_back("'" + input.string() + "'");
    throw ConfigurationError("found no text in " + join(names, ", ") + "; accepted: at least one token");
  }

  void choose_frame() {
    if (job_.special_tokens) frame_ = tokenizer_->frame();
    if (job_.ends_documents) {
      result_.document_token = tokenizer_->end_of_text();
      if (!result_.document_token) {
        throw ConfigurationError("'" + job_.tokenizer.string() +
                                 "': found no end-of-text token, in the tokenizer and beside it in "
                                 "tokenizer_config.json; accepted: --document-token with its number or text");
      }
    }
    if (job_.document_token) result_.document_token = token_of_argument(*job_.document_token);
    if (result_.document_token) frame_.last.push_back(*result_.document_token);
  }

  [[nodiscard]] std::int32_t token_of_argument(const std::string& text) const {
    const auto number = parse_number<std::int32_t>(text);
    if (number && *number >= 0) return *number;
    const std::optional<std::int32_t> token = tokenizer_->token_of(text);
    if (!token) {
      throw ConfigurationError("--document-token: found '" + text +
                               "'; accepted: the number of a token, or the text of one that the tokenizer has");
    }
    return *token;
  }

  void choose_type() {
    std::int64_t size = tokenizer_->size();
    for (const auto* tokens : {&frame_.first, &frame_.last}) {
      for (const std::int32_t token : *tokens) size = std::max(size, token + std::int64_t{1});
    }
    result_.type = job_.type;
    if (job_.type == StoredType::automatic) {
      result_.type = size <= kMostNarrowTokens ? StoredType::uint16 : StoredType::uint32;
    } else if (job_.type == StoredType::uint16 && size > kMostNarrowTokens) {
      throw ConfigurationError("--dtype: found uint16, but the tokens have numbers up to " + std::to_string(size - 1) +
                               "; accepted: auto, uint32");
    }
  }

  void choose_start() {
    std::vector<DataFile> tokenizer_files;
    for (const auto& file : tokenizer_->files()) tokenizer_files.emplace_back(file);
    nlohmann::json names = nlohmann::json::array();
    // JSON holds no bytes that are not UTF-8.
    for (const auto& input : job_.inputs) names.push_back(message_text(input.string()));
    identity_ = {{"tokenizer", fingerprint(tokenizer_files)},
                 {"list of inputs", std::move(names)},
                 {"content of its inputs", fingerprint(inputs_)},
                 {"--jsonl-field", message_text(job_.field.value_or(""))},
                 {"--dtype", result_.type == StoredType::uint16 ? 16 : 32},
                 {"--format", result_.has_header},
                 {"--special-as-text", job_.special == SpecialInText::text},
                 {"token before or after documents", {frame_.first, frame_.last}}};
    if (job_.overwrite) return;
    if (std::filesystem::exists(job_.output)) {
      throw ConfigurationError("'" + job_.output.string() + "' exists; accepted: another name, or --overwrite");
    }
    if (!std::filesystem::exists(TokenOutput::partial_path(job_.output))) return;
    state_ = read_state(job_.output, identity_).value_or(CorpusState{});
    const CorpusPosition& position = state_.position;
    const auto input = static_cast<std::size_t>(position.input);
    if (input > inputs_.size() || (input < inputs_.size() && position.byte >= inputs_[input].bytes()) ||
        (input == inputs_.size() && position.byte != 0)) {
      throw ConfigurationError("'" + state_path(job_.output).string() +
                               "': found a position behind the inputs; --overwrite begins anew");
    }
    result_.resumed_bytes = progress().bytes;
  }

  void keep_state(const TokenOutput& output) {
    if (Clock::now() - kept_ < std::chrono::seconds(job_.state_seconds)) return;
    output.sync();
    write_state(job_.output, identity_, state_);
    kept_ = Clock::now();
  }

  [[nodiscard]] CorpusProgress progress() const {
    const std::int64_t bytes = begins_[static_cast<std::size_t>(state_.position.input)] + state_.position.byte;
    return {bytes, total_bytes_, state_.documents, state_.special_documents, state_.tokens};
  }

  const CorpusJob& job_;
  std::unique_ptr<const TextTokenizer> tokenizer_;
  std::vector<DataFile> inputs_;
  std::vector<bool> has_lines_;
  /// Bytes of the inputs before each one, and of all.
  std::vector<std::int64_t> begins_;
  std::int64_t total_bytes_ = 0;
  FrameTokens frame_;
  nlohmann::json identity_;
  CorpusState state_;
  CorpusResult result_;
  Clock::time_point kept_ = Clock::now();
};

}  // namespace

CorpusResult tokenize_corpus(const CorpusJob& job, const std::function<void(const CorpusProgress&)>& report) {
  CorpusRun run(job);
  try {
    return run.run(report);
  } catch (const ConfigurationError&) {
    // Refused inputs must change, and then the job cannot continue.
    std::error_code ignored;
    std::filesystem::remove(TokenOutput::partial_path(job.output), ignored);
    std::filesystem::remove(state_path(job.output), ignored);
    throw;
  }
}

}  // namespace strata::host

#include "data/read_ahead.hpp"

#include <algorithm>
#include <chrono>

#include "strata/error.hpp"

namespace strata::host {
namespace {

std::size_t slot_count(const BatchReader& reader, const ReadAheadSettings& settings) {
  const std::int64_t fitting = settings.bytes / std::max<std::int64_t>(1, reader.batch_bytes());
  return static_cast<std::size_t>(std::clamp<std::int64_t>(fitting, 2, std::max(2, settings.batches)));
}

}  // namespace

ReadAhead::ReadAhead(const BatchReader& reader, const ReadAheadSettings& settings)
    : reader_(reader), readers_(settings.readers), slots_(slot_count(reader, settings)) {
  for (Slot& each : slots_) each.releases = readers_;
  thread_ = std::thread([this, first = settings.first_step] { read_all(first); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadAhead::read_all(std::uint64_t first_step) {
  for (std::uint64_t step = first_step;; ++step) {
    Slot& next = slot(step);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_ended_ || next.releases == readers_; });
      if (is_ended_) return;
      next.step = step;
      next.is_ready = false;
      next.releases = 0;
    }
    std::optional<std::string> failure;
    try {
      reader_.read(step, next.batch);
    } catch (...) {
      failure = current_exception_text();
    }
    {
      const std::lock_guard lock(mutex_);
      next.is_ready = !failure;
      failure_ = failure;
      failed_step_ = step;
    }
    changed_.notify_all();
    if (failure) return;
  }
}

ReadAhead::Outcome ReadAhead::wait(std::uint64_t step) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  Slot& wanted = slot(step);
  const auto has_failed = [&] { return failure_ && step >= failed_step_; };
  const auto is_there = [&] { return wanted.step == step && wanted.is_ready && wanted.releases < readers_; };
  const auto is_known = [&] { return is_there() || has_failed(); };
  Outcome outcome;
  if (!is_known()) {
    const Clock::time_point begin = Clock::now();
    changed_.wait(lock, is_known);
    outcome.wait_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  if (has_failed()) outcome.failure = failure_;
  return outcome;
}

void ReadAhead::release(std::uint64_t step) {
  {
    const std::lock_guard lock(mutex_);
    ++slot(step).releases;
  }
  changed_.notify_all();
}

void ReadAhead::load(const InputPart& part, std::uint64_t step) {
  // The slot stays as it is until this reader releases it, so no lock is needed.
  const Slot& source = slot(step);
  if (source.step != step || !source.is_ready) {
    throw VerificationError("step " + std::to_string(step) + " loads input '" + part.name + "' without waiting for it");
  }
  reader_.load(source.batch, part);
}

}  // namespace strata::host

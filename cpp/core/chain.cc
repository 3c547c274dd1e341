#include "chain.h"

#include <algorithm>
#include <utility>

#include "cache_line.h"
#include "job.h"

namespace torchrl_pool::core {
namespace {

// Values that live no longer than a phase stay in the cache.
constexpr std::size_t kTempBytes = 16 << 10;

// Of the thread's own, whichever chain they are of.
std::byte* TempMemory(std::size_t bytes) {
  thread_local ApartVector<std::byte> memory;
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

std::size_t WholeLines(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

}  // namespace

void ActionRepeat::AddUp(const std::byte* earlier, std::byte* now) const {
  const auto add_up = [this]<class T>(const T* before, T* sum) {
    for (std::size_t i = 0; i < size; ++i) sum[i] = before[i] + sum[i];
  };
  if (is_double) {
    add_up(reinterpret_cast<const double*>(earlier), reinterpret_cast<double*>(now));
  } else {
    add_up(reinterpret_cast<const float*>(earlier), reinterpret_cast<float*>(now));
  }
}

Chain::Chain(ChainColumns columns) : columns_(std::move(columns)), phases_(1) {
  for (const std::size_t bytes : columns_.temps) {
    temp_offsets_.push_back(std::exchange(temp_bytes_, temp_bytes_ + WholeLines(bytes)));
  }
}

void Chain::Add(std::size_t phase, std::shared_ptr<const Stage> stage, bool at_steps, bool at_resets) {
  if (phases_.size() <= phase) phases_.resize(phase + 1);
  const Listed listed{std::move(stage), learned_bytes_};
  if (at_steps) phases_[phase].at_steps.push_back(listed);
  if (at_resets) phases_[phase].at_resets.push_back(listed);
  learned_bytes_ += WholeLines(listed.stage->learned_bytes());
}

void Chain::Extend(Job& job) const {
  job.chain = this;
  job.chain_phase = 0;
  for (const std::size_t bytes : columns_.columns) {
    job.out.AddColumn(bytes);
    job.root.AddColumn(bytes);
  }
  for (const std::size_t bytes : columns_.carried) job.actions.AddColumn(bytes);
  if (job.learned.size() < learned_bytes_) job.learned.resize(learned_bytes_);
}

void Chain::Learn(Job& job, std::size_t phase, When when, const BatchRows& rows) const {
  for (const Listed& one : StagesOf(phase, when)) one.stage->Learn(rows, job.learned.data() + one.learned);
}

ChainRunner::ChainRunner(const Job& job, const Batch& batch) : job_(job), chain_(*job.chain) {
  const std::size_t columns = chain_.num_columns(), carried = chain_.columns_.carried.size();
  const std::size_t count = columns + carried + chain_.temp_offsets_.size();
  if (count > few_.size()) {
    many_.resize(count);
    values_ = many_.data();
  }
  Rows* value = values_;
  for (std::size_t i = 0; i < columns; ++i) *value++ = batch.RowsFrom(i, 0);
  for (std::size_t i = 0; i < carried; ++i) {
    *value++ = job.actions.RowsFrom(chain_.columns_.pool_actions + i, 0);
  }
  temps_ = value;
}

// Stage by stage, over as many rows at once as there is room for.
void ChainRunner::Run(std::size_t phase, Chain::When when, std::uint32_t first, std::uint32_t count) {
  const Chain::Stages& stages = chain_.StagesOf(phase, when);
  if (stages.empty()) return;
  const std::size_t temps = chain_.temp_offsets_.size(), temp_bytes = chain_.temp_bytes_;
  const std::size_t most = temp_bytes == 0 ? count : std::max<std::size_t>(1, kTempBytes / temp_bytes);
  for (const std::uint32_t end = first + count; first < end;) {
    const auto at_once = static_cast<std::uint32_t>(std::min<std::size_t>(most, end - first));
    std::byte* const memory = temps > 0 ? TempMemory(temp_bytes * at_once) : nullptr;
    for (std::size_t i = 0; i < temps; ++i) {
      const std::size_t row_bytes = chain_.columns_.temps[i];
      temps_[i] = {memory + chain_.temp_offsets_[i] * at_once - first * row_bytes, row_bytes};
    }
    for (const Chain::Listed& one : stages) {
      one.stage->Run({values_, job_.learned.data() + one.learned, first, at_once}, when);
    }
    first += at_once;
  }
}

}  // namespace torchrl_pool::core

#include "chain.h"

#include <semaphore.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "cache_line.h"
#include "cpu.h"
#include "job.h"

namespace torchrl_pool::core {
namespace {

// Values that live no longer than a phase stay in the cache.
constexpr std::size_t kTempBytes = 16 << 10;

constexpr long kSecond = 1'000'000'000;

// Of the thread's own, whichever chain they are of.
std::byte* TempMemory(std::size_t bytes) {
  thread_local ApartVector<std::byte> memory;
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

std::size_t WholeLines(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

// A lock while this lives, if it is to be had soon: another process may hold it for ever.
class Locked {
 public:
  explicit Locked(std::uintptr_t lock) : lock_(reinterpret_cast<sem_t*>(lock)) {
    if (!lock_ || sem_trywait(lock_) == 0) return;
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += std::chrono::nanoseconds(kInterruptPeriod).count();
    until.tv_sec += std::exchange(until.tv_nsec, until.tv_nsec % kSecond) / kSecond;
    has_it_ = sem_timedwait(lock_, &until) == 0;
  }
  ~Locked() {
    if (lock_ && has_it_) sem_post(lock_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  explicit operator bool() const { return has_it_; }

 private:
  sem_t* const lock_;
  bool has_it_ = true;
};

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
  job.chain_phase = job.num_learned = 0;
  for (const std::size_t bytes : columns_.columns) {
    job.out.AddColumn(bytes);
    job.root.AddColumn(bytes);
  }
  for (const std::size_t bytes : columns_.carried) job.actions.AddColumn(bytes);
  if (job.learned.size() < learned_bytes_) job.learned.resize(learned_bytes_);
}

bool Chain::Learn(Job& job, std::size_t phase, When when, const BatchRows& rows) const {
  const Stages& stages = StagesOf(phase, when);
  for (; job.num_learned < stages.size(); ++job.num_learned) {
    const Listed& next = stages[job.num_learned];
    const Locked locked(next.stage->lock());
    if (!locked) return false;
    next.stage->Learn(rows, job.learned.data() + next.learned);
  }
  job.num_learned = 0;
  return true;
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

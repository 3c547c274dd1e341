#include "chain.h"

#include <algorithm>
#include <mutex>

#include "cache_line.h"
#include "ticket.h"

namespace torchrl_pool::core {
namespace {

// Values that live no longer than a phase stay in the cache.
constexpr std::size_t kTempBytes = 16 << 10;

// What a thread needs for the rows at hand, whichever chain they are of.
struct RowMemory {
  ApartVector<Rows> values;
  ApartVector<std::byte> temps;
};

RowMemory& ThisThreadsMemory() {
  thread_local RowMemory memory;
  return memory;
}

// Statistics may be shared by chains and by pools: they are learned by one ticket at a time.
std::mutex& LearningMutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

}  // namespace

bool BatchRows::Begins(std::size_t i) const {
  const std::uint32_t env = envs_[i];
  return takes_root_ ? *out_.Row(done_, env) != std::byte{0}
                     : std::binary_search(begun_.begin(), begun_.end(), env);
}

const std::byte* BatchRows::Row(ValueIndex column, std::size_t i) const {
  return (takes_root_ && Begins(i) ? root_ : out_).Row(column, envs_[i]);
}

Chain::Chain(ChainColumns columns) : columns_(std::move(columns)), phases_(1) {
  for (const std::size_t bytes : columns_.temps) {
    temp_offsets_.push_back(temp_bytes_);
    temp_bytes_ += (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
}

void Chain::Add(std::size_t phase, std::shared_ptr<ChainStage> stage, bool at_steps, bool at_resets) {
  if (phases_.size() <= phase) phases_.resize(phase + 1);
  stage->learned_offset = learned_bytes_;
  learned_bytes_ += (stage->learned_bytes() + kCacheLine - 1) / kCacheLine * kCacheLine;
  if (at_steps) phases_[phase].at_steps.push_back(stage);
  if (at_resets) phases_[phase].at_resets.push_back(std::move(stage));
}

void Chain::Extend(Ticket& ticket) const {
  ticket.chain = this;
  ticket.chain_phase = 0;
  for (const std::size_t bytes : columns_.columns) {
    ticket.out.AddColumn(bytes);
    ticket.root.AddColumn(bytes);
  }
  for (const std::size_t bytes : columns_.carried) ticket.actions.AddColumn(bytes);
  if (ticket.learned.size() < learned_bytes_) ticket.learned.resize(learned_bytes_);
}

// Stage by stage, over as many rows at once as there is room for.
void Chain::Run(const Ticket& ticket, const Batch& batch, std::size_t phase, When when, std::uint32_t first,
                std::uint32_t count) const {
  const Stages& stages = StagesOf(phase, when);
  if (stages.empty()) return;
  RowMemory& memory = ThisThreadsMemory();
  const std::size_t columns = num_columns(), carried = columns_.carried.size(), temps = temp_offsets_.size();
  if (memory.values.size() < columns + carried + temps) memory.values.resize(columns + carried + temps);
  const auto most = temp_bytes_ == 0
                        ? count
                        : static_cast<std::uint32_t>(std::max<std::size_t>(1, kTempBytes / temp_bytes_));
  for (const std::uint32_t end = first + count; first < end; first += most) {
    Rows* value = memory.values.data();
    for (std::size_t i = 0; i < columns; ++i) *value++ = batch.RowsFrom(i, first);
    for (std::size_t i = 0; i < carried; ++i) {
      *value++ = ticket.actions.RowsFrom(columns_.pool_actions + i, first);
    }
    ChainRows rows{memory.values.data(), nullptr, first, std::min(most, end - first)};
    if (temps > 0) {
      const std::size_t bytes = temp_bytes_ * rows.count;
      if (memory.temps.size() < bytes) memory.temps.resize(bytes);
      std::byte* const base = memory.temps.data();
      for (const std::size_t offset : temp_offsets_) *value++ = {base + offset, temp_bytes_};
    }
    for (const auto& stage : stages) {
      rows.learned = ticket.learned.data() + stage->learned_offset;
      stage->Run(rows, when);
    }
  }
}

void Chain::Learn(Ticket& ticket, std::size_t phase, When when, const BatchRows& rows) const {
  const std::lock_guard lock(LearningMutex());
  for (const auto& stage : StagesOf(phase, when)) {
    if (stage->learns()) stage->Learn(rows, ticket.learned.data() + stage->learned_offset);
  }
}

}  // namespace torchrl_pool::core

#include "threads/home_queue.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"
#include "concurrency.h"

namespace torchrl_pool::core {
namespace {

using test::Scaled;
using test::Threads;

// Pointers that only tell chunks apart.
Job* JobNumber(std::uintptr_t number) { return reinterpret_cast<Job*>(number); }

Chunk Numbered(std::uint32_t number) {
  return {JobNumber(std::uintptr_t{number} * 16), number, number % 1000 + 1};
}

void PushOne(HomeQueue& queue, const Chunk& chunk) { queue.Push(chunk, {chunk.count, chunk.count}); }

TEST(IsEmptyAtFirst) {
  HomeQueue queue(4);
  Chunk chunk;
  CHECK(queue.empty());
  CHECK(!queue.Pop(&chunk, false));
}

TEST(GivesChunksBackInOrder) {
  HomeQueue queue(5);
  for (std::uint32_t i = 0; i < 5; ++i) PushOne(queue, {JobNumber(i), 10 * i, i + 1});
  for (std::uint32_t i = 0; i < 5; ++i) {
    CHECK(!queue.empty());
    Chunk chunk;
    CHECK(queue.Pop(&chunk, i % 2 != 0));
    CHECK(chunk.job == JobNumber(i));
    CHECK_EQ(chunk.first, 10 * i);
    CHECK_EQ(chunk.count, i + 1);
  }
  CHECK(queue.empty());
}

TEST(KeepsTheLargestValues) {
  HomeQueue queue(1);
  PushOne(queue, {JobNumber(UINTPTR_MAX), kMaxEnvs, kMaxEnvs, true});
  Chunk chunk;
  CHECK(queue.Pop(&chunk, false));
  CHECK(chunk.job == JobNumber(UINTPTR_MAX));
  CHECK_EQ(chunk.first, kMaxEnvs);
  CHECK_EQ(chunk.count, kMaxEnvs);
  CHECK(chunk.stays_home);
}

TEST(CutsWorkIntoChunks) {
  HomeQueue queue(8);
  queue.Push({JobNumber(1), 3, 8}, {3, 3});
  Chunk chunk;
  for (const std::uint32_t first : {3u, 6u, 9u}) {
    CHECK(queue.Pop(&chunk, false));
    CHECK_EQ(chunk.first, first);
    CHECK_EQ(chunk.count, first == 9 ? 2u : 3u);
  }
  CHECK(queue.empty());
}

TEST(ChunksGetShorterTowardsTheEnd) {
  HomeQueue queue(64);
  queue.Push({JobNumber(1), 0, 64}, {2, 12});
  Chunk chunk;
  std::uint32_t done = 0;
  for (const std::uint32_t count : {12, 12, 10, 7, 5, 4, 3, 2, 2, 2, 2, 2, 1}) {
    CHECK(queue.Pop(&chunk, false));
    CHECK_EQ(chunk.first, done);
    CHECK_EQ(chunk.count, count);
    done += count;
  }
  CHECK_EQ(done, 64u);
  CHECK(queue.empty());
}

TEST(ThievesLeaveWhatStaysHome) {
  HomeQueue queue(4);
  PushOne(queue, {JobNumber(1), 0, 1, true});
  PushOne(queue, {JobNumber(1), 1, 1});
  Chunk chunk;
  CHECK(!queue.Pop(&chunk, true));  // nor do they look behind it
  CHECK(queue.Pop(&chunk, false));
  CHECK(chunk.stays_home);
  CHECK(queue.Pop(&chunk, true));
  CHECK(!chunk.stays_home);
}

TEST(WrapsAroundFarBeyondItsCapacity) {
  for (const std::uint32_t capacity : {1u, 2u, 3u, 7u, 64u, 100u}) {
    HomeQueue queue(capacity);
    std::uint32_t pushed = 0, popped = 0;
    for (int round = 0; round < Scaled(20'000); ++round) {
      const std::uint32_t count = 1 + static_cast<std::uint32_t>(round) % capacity;
      for (std::uint32_t i = 0; i < count; ++i) PushOne(queue, Numbered(pushed++));
      Chunk chunk;
      while (queue.Pop(&chunk, false)) CHECK_EQ(chunk.first, popped++);
      CHECK_EQ(popped, pushed);
    }
  }
}

// `producers` take turns at pushing, as the threads that call a pool do; everybody else pops. As in a pool,
// there are never more chunks in the ring than it has slots.
void Stress(int producers, int consumers, std::uint32_t capacity, std::uint32_t total) {
  HomeQueue queue(capacity);
  std::mutex turn;
  std::uint32_t pushed = 0;  // under `turn`
  std::atomic<std::uint32_t> popped{0};
  const auto times = std::make_unique<std::atomic<std::uint8_t>[]>(total);
  // What the producer wrote before it pushed a chunk is there for whoever pops it.
  std::vector<std::uint32_t> jobs(total);
  Threads threads;
  for (int i = 0; i < producers; ++i) {
    threads.Start([&] {
      for (;; std::this_thread::yield()) {
        std::lock_guard lock(turn);
        if (pushed == total) return;
        for (std::uint32_t k = 0; k < 50 && pushed < total; ++k) {
          if (pushed - popped.load(std::memory_order_acquire) == capacity) break;
          jobs[pushed] = pushed * 3;
          PushOne(queue, Numbered(pushed++));
        }
      }
    });
  }
  for (int i = 0; i < consumers; ++i) {
    threads.Start([&] {
      std::int64_t last = -1;
      Chunk chunk;
      while (popped.load(std::memory_order_relaxed) < total) {
        if (!queue.Pop(&chunk, true)) {
          std::this_thread::yield();
          continue;
        }
        const std::uint32_t number = chunk.first;
        popped.fetch_add(1, std::memory_order_release);
        CHECK(number < total);
        CHECK_EQ(chunk.count, number % 1000 + 1);
        CHECK(chunk.job == JobNumber(std::uintptr_t{number} * 16));
        CHECK_EQ(jobs[number], number * 3);
        CHECK(number > last);  // each consumer sees them in order
        last = number;
        times[number].fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  threads.Join();
  CHECK(queue.empty());
  for (std::uint32_t i = 0; i < total; ++i) CHECK_EQ(int{times[i].load(std::memory_order_relaxed)}, 1);
}

TEST(GivesEachChunkToExactlyOneConsumer) { Stress(1, 3, 64, static_cast<std::uint32_t>(Scaled(1'000'000))); }

TEST(GivesEachChunkToExactlyOneConsumerInATinyRing) {
  Stress(1, 4, 2, static_cast<std::uint32_t>(Scaled(50'000)));
}

TEST(LetsProducersTakeTurns) { Stress(3, 3, 1000, static_cast<std::uint32_t>(Scaled(200'000))); }

}  // namespace
}  // namespace torchrl_pool::core

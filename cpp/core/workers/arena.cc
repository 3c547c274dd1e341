#include "workers/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "errors.h"

namespace torchrl_pool::core {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace

Arena::Arena(int descriptor, ArenaShape shape, bool make) : shape_(std::move(shape)) {
  const auto reserve = [this](std::size_t bytes) {
    const std::size_t offset = size_;
    size_ += (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    return offset;
  };
  const std::size_t num_envs = shape_.num_envs();
  reserve(sizeof(Doorbell));
  mailboxes_ = reserve(sizeof(Mailbox) * static_cast<std::size_t>(shape_.num_workers()));
  for (int worker = 0; worker < shape_.num_workers(); ++worker) {
    requests_.push_back(reserve(sizeof(std::uint64_t) * num_requests(worker)));
  }
  cells_ = reserve(sizeof(EnvCell) * num_envs);
  for (const std::size_t bytes : shape_.action_bytes) actions_.push_back(reserve(bytes * num_envs));
  for (const std::size_t bytes : shape_.output_bytes) outputs_.push_back(reserve(bytes * num_envs));
  for (const std::size_t bytes : shape_.output_bytes) roots_.push_back(reserve(bytes * num_envs));
  messages_ = reserve(kMessageBytes * num_envs);

  const auto fail = [](const char* what) {
    throw PoolError(std::string("cannot ") + what +
                    " the memory shared with workers: " + std::strerror(errno));
  };
  if (make && ftruncate(descriptor, static_cast<off_t>(size_)) != 0) fail("size");
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) fail("map");
  memory_ = static_cast<std::byte*>(memory);
  if (!make) return;
  new (memory_) Doorbell();
  for (int worker = 0; worker < shape_.num_workers(); ++worker) {
    new (&mailbox(worker)) Mailbox();
    for (std::uint64_t i = 0; i < num_requests(worker); ++i) {
      new (&request(worker, i)) std::atomic<std::uint64_t>(0);
    }
  }
  for (std::uint32_t env = 0; env < num_envs; ++env) new (&cell(env)) EnvCell();
}

Arena::~Arena() { munmap(memory_, size_); }

// A ring with a slot for each env never overflows: an env is in one request at a time.
std::uint64_t Arena::num_requests(int worker) const {
  const auto w = static_cast<std::size_t>(worker);
  return std::bit_ceil(std::uint64_t{shape_.first_env[w + 1] - shape_.first_env[w]});
}

std::atomic<std::uint64_t>& Arena::request(int worker, std::uint64_t number) const {
  const std::uint64_t mask = num_requests(worker) - 1;
  return At<std::atomic<std::uint64_t>>(requests_[static_cast<std::size_t>(worker)])[number & mask];
}

std::pair<std::uint64_t, std::chrono::nanoseconds> Arena::StepTime() const {
  std::uint64_t steps = 0, time = 0;
  for (int worker = 0; worker < shape_.num_workers(); ++worker) {
    steps += mailbox(worker).steps.load(std::memory_order_relaxed);
    time += mailbox(worker).step_ns.load(std::memory_order_relaxed);
  }
  return {steps, std::chrono::nanoseconds(time)};
}

std::string Arena::MessageOf(std::uint32_t env) const {
  const auto* text = reinterpret_cast<const char*>(memory_ + messages_ + env * kMessageBytes);
  return {text, std::min<std::size_t>(cell(env).message_bytes, kMessageBytes)};
}

void Arena::SetMessage(std::uint32_t env, std::string_view message) const {
  if (message.size() > kMessageBytes) message.remove_prefix(message.size() - kMessageBytes);
  std::memcpy(memory_ + messages_ + env * kMessageBytes, message.data(), message.size());
  cell(env).message_bytes = static_cast<std::uint32_t>(message.size());
}

}  // namespace torchrl_pool::core

// Saving and restoring simulators, and their pictures: calls that touch one env, on the calling thread.
#include <algorithm>
#include <cstring>

#include "errors.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

constexpr char kMagic[] = "torchrl_pool state 1";

void Append(std::vector<std::uint8_t>& bytes, const void* data, std::size_t size) {
  const std::size_t end = bytes.size();
  bytes.resize(end + size);
  if (size > 0) std::memcpy(bytes.data() + end, data, size);  // null where there is nothing
}

class Reader {
 public:
  explicit Reader(const std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}

  void Read(void* to, std::size_t size) {
    if (bytes_.size() - position_ < size) {
      throw StatusError(TRP_INVALID_ARGUMENT, "the saved state is truncated");
    }
    if (size > 0) std::memcpy(to, bytes_.data() + position_, size);
    position_ += size;
  }
  std::string ReadString(std::size_t size) {
    std::string text(std::min(size, bytes_.size()), '\0');
    Read(text.data(), size);
    return text;
  }
  const std::uint8_t* rest() const { return bytes_.data() + position_; }
  std::size_t rest_size() const { return bytes_.size() - position_; }

 private:
  const std::vector<std::uint8_t>& bytes_;
  std::size_t position_ = 0;
};

}  // namespace

EnvSlot& Pool::IdleSlot(std::uint32_t env_index) {
  CheckUsable();
  CheckIndex(env_index);
  if (abandoned_ && ticket_->remaining.load(std::memory_order_acquire) > 0) {
    throw PoolError("envs are still at work after an interrupted call");
  }
  if (states_[env_index] == EnvState::kInFlight && !abandoned_) {
    throw PoolError("env " + std::to_string(env_index) + " is in flight: receive it first");
  }
  CheckNotHung(env_index);
  return slots_[env_index];
}

void Pool::ThrowUnlessOk(int status, const EnvSlot& slot, std::uint32_t env_index,
                         const trp_error& error) const {
  if (status == TRP_OK) return;
  throw StatusError(static_cast<trp_status>(status), "env " + std::to_string(env_index) + " (" +
                                                         slot.config->task().id + "): " + MessageOf(error));
}

std::vector<std::uint8_t> Pool::Save(std::uint32_t env_index) {
  const auto lock = Lock();
  EnvSlot& slot = IdleSlot(env_index);
  const trp_task& task = slot.config->task();
  if (!task.save) {
    throw StatusError(TRP_UNSUPPORTED, std::string("task '") + task.id + "' cannot save its state");
  }
  if (states_[env_index] != EnvState::kReady) {
    throw PoolError("env " + std::to_string(env_index) + " has no state to save: reset it first");
  }
  const std::string id = task.id;
  const auto id_size = static_cast<std::uint64_t>(id.size());
  std::vector<std::uint8_t> bytes;
  Append(bytes, kMagic, sizeof kMagic);
  Append(bytes, &id_size, sizeof id_size);
  Append(bytes, id.data(), id.size());
  Append(bytes, &slot.elapsed_steps, sizeof slot.elapsed_steps);
  const auto num_rewards = static_cast<std::uint64_t>(slot.episode_rewards.size());
  Append(bytes, &num_rewards, sizeof num_rewards);
  Append(bytes, slot.episode_rewards.data(), num_rewards * sizeof(float));

  trp_error error{};
  std::size_t size = 0;
  ThrowUnlessOk(task.save(slot.env, nullptr, &size, &error), slot, env_index, error);
  const std::size_t header = bytes.size();
  bytes.resize(header + size);
  ThrowUnlessOk(task.save(slot.env, bytes.data() + header, &size, &error), slot, env_index, error);
  bytes.resize(header + size);
  return bytes;
}

void Pool::Load(std::uint32_t env_index, const std::vector<std::uint8_t>& bytes) {
  const auto lock = Lock();
  EnvSlot& slot = IdleSlot(env_index);
  const trp_task& task = slot.config->task();
  if (!task.load) {
    throw StatusError(TRP_UNSUPPORTED, std::string("task '") + task.id + "' cannot load a state");
  }
  Reader reader(bytes);
  char magic[sizeof kMagic];
  reader.Read(magic, sizeof magic);
  if (std::memcmp(magic, kMagic, sizeof magic) != 0) {
    throw StatusError(TRP_INVALID_ARGUMENT, "these bytes are no state that get_state returned");
  }
  std::uint64_t id_size = 0;
  reader.Read(&id_size, sizeof id_size);
  const std::string id = reader.ReadString(id_size);
  if (id != task.id) {
    throw StatusError(TRP_INVALID_ARGUMENT, "this state is of task '" + id + "', env " +
                                                std::to_string(env_index) + " runs '" + task.id + "'");
  }
  std::int64_t elapsed_steps = 0;
  reader.Read(&elapsed_steps, sizeof elapsed_steps);
  std::uint64_t num_rewards = 0;
  reader.Read(&num_rewards, sizeof num_rewards);
  std::vector<float> rewards(slot.episode_rewards.size());
  if (num_rewards != rewards.size()) {
    throw StatusError(TRP_INVALID_ARGUMENT,
                      "this state was saved with another choice of the info key 'episode_reward'");
  }
  reader.Read(rewards.data(), rewards.size() * sizeof(float));

  trp_error error{};
  ThrowUnlessOk(task.load(slot.env, reader.rest(), reader.rest_size(), &error), slot, env_index, error);
  slot.elapsed_steps = elapsed_steps;
  std::copy(rewards.begin(), rewards.end(), slot.episode_rewards.begin());
  states_[env_index] = EnvState::kReady;
}

std::pair<std::int64_t, std::int64_t> Pool::RenderSize(std::uint32_t env_index) {
  const auto lock = Lock();
  return IdleSlot(env_index).config->RenderSize();
}

void Pool::Render(std::uint32_t env_index, std::uint8_t* rgb) {
  const auto lock = Lock();
  EnvSlot& slot = IdleSlot(env_index);
  if (!slot.config->task().render) {
    throw StatusError(TRP_UNSUPPORTED,
                      std::string("task '") + slot.config->task().id + "' cannot be rendered");
  }
  if (states_[env_index] != EnvState::kReady) {
    throw PoolError("env " + std::to_string(env_index) + " has nothing to show: reset it first");
  }
  trp_error error{};
  ThrowUnlessOk(slot.config->task().render(slot.env, rgb, &error), slot, env_index, error);
}

}  // namespace torchrl_pool::core

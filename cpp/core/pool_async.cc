// The pool's calls for results that are delivered one by one.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "errors.h"
#include "pool.h"
#include "rows.h"

namespace torchrl_pool::core {

bool Pool::PrepareAsync(const Batch& out, const Batch& root) {
  const auto lock = Lock();
  if (!async_out_.base.empty()) return false;
  Batch own_root = root;
  Batch own_out = out;
  async_root_ = std::move(own_root);
  async_out_ = std::move(own_out);
  return true;
}

std::optional<Outbox::Received> Pool::Receive(Op op, std::size_t least, std::size_t most,
                                              std::optional<Outbox::Clock::duration> timeout,
                                              InterruptCheck interrupted) {
  (void)Lock();
  return Checked(outbox_.Receive(op, least, most, timeout, interrupted));
}

std::optional<Outbox::Received> Pool::ReceiveAlone(Op op, std::uint32_t env,
                                                   std::optional<Outbox::Clock::duration> timeout,
                                                   InterruptCheck interrupted) {
  (void)Lock();
  envs_.CheckIndex(env);
  return Checked(outbox_.ReceiveAlone(op, env, timeout, interrupted));
}

std::optional<Outbox::Received> Pool::Checked(std::optional<Outbox::Received> received) {
  if (!received || received->faults.empty()) return received;
  const std::lock_guard lock(mutex_);  // even if closed: the faults are known here only
  envs_.MarkFailed(received->faults);
  throw envs_.FailureOf(std::move(received->faults));
}

void Pool::CopyRowsOf(const Outbox::Received& received, std::byte* const* out, std::byte* const* root) const {
  const Batch& stepped = received.op == Op::kReset ? async_root_ : async_out_;
  std::vector<std::size_t> begun;  // an episode
  for (std::size_t k = 0; k < received.envs.size(); ++k) {
    if (received.resets[k]) begun.push_back(k);
  }
  for (std::size_t i = 0; i < layout().outputs.size(); ++i) {
    const std::size_t bytes = layout().outputs[i].row_bytes;
    if (out[i]) GatherRows(stepped.RowsFrom(i, 0), received.envs, out[i], bytes);
    if (!root[i]) continue;
    GatherRows(stepped.RowsFrom(i, 0), received.envs, root[i], bytes);
    for (const std::size_t k : begun) {
      std::memcpy(root[i] + k * bytes, async_root_.Row(i, received.envs[k]), bytes);
    }
  }
}

void Pool::Accept(Outbox::Received& received) {
  const auto lock = Lock();
  envs_.SetState(received.envs, EnvState::kReady);
  received.is_accepted = true;
}

bool Pool::PutBack(const Outbox::Received& received) {
  if (forked()) return false;
  {
    const std::lock_guard lock(mutex_);
    const auto is_ready = [&](std::uint32_t env) { return envs_.state(env) == EnvState::kReady; };
    if (received.is_accepted) {
      if (!std::all_of(received.envs.begin(), received.envs.end(), is_ready)) return false;
      envs_.SetState(received.envs, EnvState::kInFlight);
    }
  }
  outbox_.PutBack(received);
  return true;
}

}  // namespace torchrl_pool::core

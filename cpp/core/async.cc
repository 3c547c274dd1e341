// Envs in flight: sent and received in any order, by any threads.
#include <cstring>

#include "errors.h"
#include "pool.h"
#include "validate.h"

namespace torchrl_pool::core {

void Pool::PrepareAsync(const Batch& out, const Batch& root) {
  const auto lock = Lock();
  CheckUsable();
  if (!async_actions_.empty() || outbox_.outstanding() > 0)
    throw PoolError("async calls are prepared already");
  for (const ActionColumn& column : layout_.actions)
    async_actions_.emplace_back(num_envs() * column.row_bytes);
  for (const Op op : {Op::kReset, Op::kStep, Op::kStepAndReset}) {
    Ticket& ticket = async_tickets_[static_cast<std::size_t>(op)];
    ticket.op = op;
    ticket.out = op == Op::kReset ? root : out;  // a reset writes a root
    ticket.root = root;
    for (std::size_t i = 0; i < layout_.actions.size(); ++i) {
      ticket.actions.base.push_back(async_actions_[i].data());
      ticket.actions.stride.push_back(layout_.actions[i].row_bytes);
    }
  }
}

// Everything that can be wrong with a send, before anything has changed.
void Pool::CheckAsyncSend(Op op, std::span<const std::uint32_t> envs, const std::byte* const* actions) {
  for (const std::uint32_t env : envs) {
    CheckIndex(env);
    CheckEnvState(op, env);
  }
  bool repeated = false;
  for (const std::uint32_t env : envs) repeated = repeated || is_sent_[env]++ > 0;
  for (const std::uint32_t env : envs) is_sent_[env] = 0;
  if (repeated) throw StatusError(TRP_INVALID_ARGUMENT, "env_index: an env is named twice");
  if (op == Op::kReset) return;
  Batch row;  // of one env, where that env's would be in rows for all
  row.base.resize(layout_.actions.size());
  row.stride.resize(layout_.actions.size());
  for (std::size_t k = 0; k < envs.size(); ++k) {
    for (std::size_t i = 0; i < layout_.actions.size(); ++i) {
      row.stride[i] = 0;
      row.base[i] = const_cast<std::byte*>(actions[i]) + k * layout_.actions[i].row_bytes;
    }
    CheckActions(layout_, *configs_[envs[k]], row, envs[k], 1);
  }
}

void Pool::Send(Op op, std::span<const std::uint32_t> envs, const std::byte* const* actions, bool alone,
                InterruptCheck interrupted) {
  bool unfinished = false;
  {
    const auto lock = Lock();
    CheckUsable();
    unfinished = abandoned_;
  }
  if (unfinished) {
    BeginCall(interrupted);
    EndCall();
  }
  FreeHung();
  const auto lock = Lock();
  CheckUsable();
  CheckAsyncSend(op, envs, actions);
  if (op != Op::kReset) {
    for (std::size_t i = 0; i < layout_.actions.size(); ++i) {
      const std::size_t bytes = layout_.actions[i].row_bytes;
      for (std::size_t k = 0; k < envs.size(); ++k) {
        std::memcpy(async_actions_[i].data() + envs[k] * bytes, actions[i] + k * bytes, bytes);
      }
    }
  }
  for (const std::uint32_t env : envs) states_[env] = EnvState::kInFlight;
  outbox_.Expect(op, envs, alone);
  PublishAsync(op, envs);
}

std::optional<Outbox::Received> Pool::Receive(Op op, std::size_t least, std::size_t most,
                                              std::optional<Outbox::Clock::duration> timeout,
                                              InterruptCheck interrupted) {
  {
    const auto lock = Lock();
    CheckUsable();
  }
  auto received = outbox_.Receive(op, least, most, timeout, Watching(interrupted));
  if (!received) ShareWaitingWork();
  CheckReceived(received);
  return received;
}

std::optional<Outbox::Received> Pool::ReceiveAlone(Op op, std::uint32_t env,
                                                   std::optional<Outbox::Clock::duration> timeout,
                                                   InterruptCheck interrupted) {
  {
    const auto lock = Lock();
    CheckUsable();
    CheckIndex(env);
  }
  auto received = outbox_.ReceiveAlone(op, env, timeout, Watching(interrupted));
  if (!received) ShareWaitingWork();
  CheckReceived(received);
  return received;
}

void Pool::CheckReceived(const std::optional<Outbox::Received>& received) {
  if (!received || received->faults.empty()) return;
  {
    const auto lock = Lock();
    MarkFailed(received->faults);
  }
  ThrowFailure(received->faults);
}

void Pool::Take(Op op, const Outbox::Received& received, const std::byte* const* out,
                const std::byte* const* root) {
  const Ticket& ticket = async_tickets_[static_cast<std::size_t>(op)];
  const auto copy = [&](const Batch& batch, std::size_t column, const std::byte* base, std::size_t k) {
    const std::size_t bytes = layout_.outputs[column].row_bytes;
    std::memcpy(const_cast<std::byte*>(base) + k * bytes, batch.Row(column, received.envs[k]), bytes);
  };
  for (std::size_t column = 0; column < layout_.outputs.size(); ++column) {
    for (std::size_t k = 0; out[column] && k < received.envs.size(); ++k)
      copy(ticket.out, column, out[column], k);
    for (std::size_t k = 0; root[column] && k < received.envs.size(); ++k) {
      copy(received.resets[k] != 0 ? ticket.root : ticket.out, column, root[column], k);
    }
  }
  const auto lock = Lock();
  for (const std::uint32_t env : received.envs) states_[env] = EnvState::kReady;
}

}  // namespace torchrl_pool::core

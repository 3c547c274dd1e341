#include "saved_state.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "errors.h"

namespace torchrl_pool::core {
namespace {

constexpr std::string_view kMagic = "torchrl_pool state ";
constexpr std::string_view kVersion = "2";
// More steps than any episode has; well below what could overflow.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 62;

class Writer {
 public:
  void Bytes(const void* data, std::size_t size) {
    const std::size_t end = bytes.size();
    bytes.resize(end + size);
    if (size > 0) std::memcpy(bytes.data() + end, data, size);  // null where there is nothing
  }
  template <class T>
  void Number(T number) {
    Bytes(&number, sizeof number);
  }
  void Text(std::string_view text) {
    Number<std::uint64_t>(text.size());
    Bytes(text.data(), text.size());
  }

  std::vector<std::uint8_t> bytes;
};

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : rest(bytes) {}

  std::span<const std::uint8_t> Bytes(std::uint64_t size) {
    if (rest.size() < size) throw StatusError(TRP_INVALID_ARGUMENT, "the saved state is truncated");
    const auto bytes = rest.first(size);
    rest = rest.subspan(size);
    return bytes;
  }
  template <class T>
  T Number() {
    T number;
    std::memcpy(&number, Bytes(sizeof number).data(), sizeof number);
    return number;
  }
  std::string Text(std::uint64_t size) {
    const auto bytes = Bytes(size);
    return {bytes.begin(), bytes.end()};
  }
  std::string Text() { return Text(Number<std::uint64_t>()); }

  std::span<const std::uint8_t> rest;
};

// The words may quote what was read.
[[noreturn]] void Refuse(const std::string& why) { throw StatusError(TRP_INVALID_ARGUMENT, why); }

void CheckHeader(Reader& reader, const EnvSlot& slot, std::uint32_t env_index) {
  if (reader.Text(kMagic.size()) != kMagic) {
    Refuse("these bytes are no state that get_state returned");
  }
  const std::string version = reader.Text(kVersion.size());
  if (version != kVersion) {
    Refuse("this state was saved by another version of torchrl_pool, in format " + version +
           "; this one reads format " + std::string(kVersion));
  }
  const std::string id = reader.Text();
  if (id != slot.task->id) {
    Refuse("this state is of task '" + id + "', env " + std::to_string(env_index) + " runs '" +
           slot.task->id + "'");
  }
}

// What the stages keep, in their order.
std::vector<std::span<const std::uint8_t>> ReadStages(Reader& reader, const Layout& layout) {
  std::vector<std::span<const std::uint8_t>> states;
  const auto refuse = [](const std::string& name) {
    Refuse("this state was saved with another choice of the info key '" + name + "'");
  };
  const auto& kept = layout.states;
  const auto count = reader.Number<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = reader.Text();
    const auto size = reader.Number<std::uint64_t>();
    if (i >= kept.size() || kept[i].name != name || kept[i].bytes != size) refuse(name);
    states.push_back(reader.Bytes(size));
  }
  if (count < kept.size()) refuse(kept[count].name);
  return states;
}

// A plugin may only be asked to load into an env that is within an episode, and that it can bring back to
// where it was. Where the env is not, another simulator is, which is invisible until it has the state and
// then replaces the env's own.
class Substitute {
 public:
  Substitute(const Layout& layout, const EnvSlot& slot, std::uint32_t env_index)
      : stages_(layout.state_bytes), slot_(slot) {
    slot_.env = nullptr;
    slot_.state = stages_.data();
    Do(Op::kCreate, layout, env_index);
    Do(Op::kReset, layout, env_index);
  }
  ~Substitute() {
    if (slot_.env) slot_.task->destroy(slot_.env);
  }
  Substitute(const Substitute&) = delete;
  Substitute& operator=(const Substitute&) = delete;

  trp_env* env() const { return slot_.env; }
  void TakeThePlaceOf(EnvSlot& slot) { std::swap(slot.env, slot_.env); }

 private:
  void Do(Op op, const Layout& layout, std::uint32_t env_index) {
    Scratch scratch(layout);
    Job job;
    job.op = op;
    for (const OutputColumn& column : layout.outputs) job.out.AddColumn(column.row_bytes);
    if (Visitor(layout, job, scratch).Visit(env_index, slot_) == Result::kFailed) {
      const std::string why = MessageOf(scratch.error);
      if (op == Op::kCreate && slot_.env) slot_.task->destroy(std::exchange(slot_.env, nullptr));
      throw StatusError(TRP_RUNTIME_ERROR,
                        "env " + std::to_string(env_index) + " (" + slot_.task->id + "): " + why);
    }
  }

  ZeroedBytes stages_;
  EnvSlot slot_;
};

}  // namespace

void ThrowUnlessOk(int status, const EnvSlot& slot, std::uint32_t env_index, const trp_error& error) {
  if (status == TRP_OK) return;
  throw StatusError(static_cast<trp_status>(status),
                    "env " + std::to_string(env_index) + " (" + slot.task->id + "): " + MessageOf(error));
}

std::vector<std::uint8_t> SaveState(const Layout& layout, const EnvSlot& slot, std::uint32_t env_index) {
  const trp_task& task = *slot.task;
  Writer writer;
  writer.Bytes(kMagic.data(), kMagic.size());
  writer.Bytes(kVersion.data(), kVersion.size());
  writer.Text(task.id);
  writer.Number(std::min(slot.elapsed_steps, kMostSteps));
  writer.Number<std::uint64_t>(layout.states.size());
  for (const KeptState& kept : layout.states) {
    writer.Text(kept.name);
    writer.Number<std::uint64_t>(kept.bytes);
    writer.Bytes(slot.state + kept.offset, kept.bytes);
  }
  trp_error error{};
  std::size_t size = 0;
  ThrowUnlessOk(task.save(slot.env, nullptr, &size, &error), slot, env_index, error);
  const std::size_t header = writer.bytes.size();
  writer.bytes.resize(header + size);
  ThrowUnlessOk(task.save(slot.env, writer.bytes.data() + header, &size, &error), slot, env_index, error);
  writer.bytes.resize(header + size);
  return std::move(writer.bytes);
}

void LoadState(const Layout& layout, EnvSlot& slot, std::uint32_t env_index, bool is_ready,
               std::span<const std::uint8_t> bytes) {
  const trp_task& task = *slot.task;
  Reader reader(bytes);
  CheckHeader(reader, slot, env_index);
  const auto elapsed_steps = reader.Number<std::int64_t>();
  if (elapsed_steps < 0 || elapsed_steps > kMostSteps) {
    Refuse("this state is damaged: it counts " + std::to_string(elapsed_steps) + " steps");
  }
  const auto states = ReadStages(reader, layout);
  std::optional<Substitute> substitute;
  if (!is_ready && task.create) substitute.emplace(layout, slot, env_index);
  trp_error error{};
  const auto load = [&] {
    trp_env* const env = substitute ? substitute->env() : slot.env;
    return task.load(env, reader.rest.data(), reader.rest.size(), &error);
  };
  int status = load();
  if (status == TRP_UNSUPPORTED && !substitute && task.create) {
    substitute.emplace(layout, slot, env_index);
    status = load();
  }
  ThrowUnlessOk(status, slot, env_index, error);
  if (substitute) substitute->TakeThePlaceOf(slot);
  slot.elapsed_steps = elapsed_steps;
  for (std::size_t i = 0; i < states.size(); ++i) {
    std::memcpy(slot.state + layout.states[i].offset, states[i].data(), states[i].size());
  }
}

}  // namespace torchrl_pool::core

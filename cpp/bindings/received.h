// Results of asynchronous calls on their way to Python.
#ifndef TORCHRL_POOL_BINDINGS_RECEIVED_H_
#define TORCHRL_POOL_BINDINGS_RECEIVED_H_

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "columns.h"
#include "gil.h"
#include "pool_handle.h"

namespace torchrl_pool::bindings {

// Results that Python is about to take over. They are the pool's again, to be received once more, if they go
// out of scope before they are accepted, or are put back: so an interrupt at any moment loses none.
class Received {
 public:
  explicit Received(py::object pool) : owner_(std::move(pool)), pool_(owner_.cast<PoolHandle&>()) {}
  ~Received() {
    if (!received_.is_accepted && !received_.envs.empty()) PutBack();
    const GilReleased released;  // what was sent asks for it to be let go of
    received_.cargo.clear();
  }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;

  // Results that are ready, as Pool::Receive and ReceiveAlone give them. False: too few within the timeout.
  bool Receive(core::Op op, std::size_t least, std::size_t most, const std::optional<double>& timeout,
               std::optional<std::uint32_t> env) {
    const auto limit = ToDuration(timeout);
    const GilReleased released;
    auto received = env ? pool_->ReceiveAlone(op, *env, limit, Interrupted)
                        : pool_->Receive(op, least, most, limit, Interrupted);
    if (!received) return false;
    received_ = std::move(*received);
    return true;
  }

  const std::vector<std::uint32_t>& envs() const { return received_.envs; }
  bool has_resets() const { return std::ranges::count(received_.resets, std::uint8_t{1}) > 0; }
  // What each env was sent with, and its row there.
  py::list cargo() const {
    py::list list(received_.cargo.size());
    for (std::size_t i = 0; i < received_.cargo.size(); ++i) {
      const auto& [whole, row] = received_.cargo[i];
      list[i] = py::make_tuple(py::handle(static_cast<PyObject*>(whole.get())), row);
    }
    return list;
  }

  // To columns for these envs, and an int64 for the number of each. `root` may be empty.
  void CopyRows(const Addresses& out, const Addresses& root, std::byte* numbers) {
    const std::size_t columns = pool_->layout().outputs.size();
    CheckCount("out", out, columns);
    const Addresses roots = root.empty() ? Addresses(columns) : root;
    CheckCount("root", roots, columns);
    const GilReleased released;
    std::copy(envs().begin(), envs().end(), reinterpret_cast<std::int64_t*>(numbers));
    pool_->CopyRowsOf(received_, out.data(), roots.data());
  }
  void Accept() {
    if (received_.is_accepted) return;
    const GilReleased released;
    pool_->Accept(received_);
  }
  void PutBack() {
    const GilReleased released;
    pool_.PutBack(received_);
    received_.is_accepted = true;  // nothing is left to be put back
  }

 private:
  const py::object owner_;  // of `pool_`
  PoolHandle& pool_;
  core::Outbox::Received received_;
};

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_RECEIVED_H_

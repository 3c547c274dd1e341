// Memory for tensors, handed to torch by DLPack: the cheapest public way to a tensor that nobody else holds.
#ifndef TORCHRL_POOL_BINDINGS_TENSOR_MEMORY_H_
#define TORCHRL_POOL_BINDINGS_TENSOR_MEMORY_H_

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "columns.h"
#include "dlpack.h"

namespace torchrl_pool::bindings {

namespace py = pybind11;

constexpr const char* kCapsule = "dltensor_versioned";  // until somebody has taken what is in it
constexpr std::size_t kAlignment = 64;                  // of data, which torch wants

// Blocks of one size that no tensor holds any more. They become tensors of the same column again: a thread
// that steps the same envs at every call then finds the rows that it writes in its own cache, and on its own
// memory node, where those of a block from the heap may be anywhere. Deleters come from any thread.
class Shelf {
 public:
  explicit Shelf(std::size_t bytes)
      : bytes_(bytes), most_(std::clamp<std::size_t>(kMostBytes / bytes, kFewest, kMost)) {
    blocks_.reserve(most_);
  }
  ~Shelf() {
    for (void* block : blocks_) std::free(block);
  }

  void* Take() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || blocks_.empty()) return std::malloc(bytes_);
    void* const block = blocks_.back();
    blocks_.pop_back();
    return block;
  }
  void PutBack(void* block) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || blocks_.size() == most_) return std::free(block);
    blocks_.push_back(block);
  }

 private:
  static constexpr std::size_t kFewest = 2, kMost = 64, kMostBytes = 16 << 20;

  const std::size_t bytes_, most_;
  std::mutex mutex_;  // never waited for: a forked child may have inherited it locked
  std::vector<void*> blocks_;
};

// What a block begins with; its tensor's data follow where they are aligned. A tensor may outlive its shelf.
struct Header {
  DlManagedTensor managed;
  std::weak_ptr<Shelf> shelf;
  void* block;

  static void Delete(DlManagedTensor* managed) {
    auto* const header = static_cast<Header*>(managed->manager);
    const auto shelf = header->shelf.lock();
    void* const block = header->block;
    header->~Header();
    if (!shelf) return std::free(block);
    shelf->PutBack(block);
  }
};
constexpr std::size_t kHeader = (sizeof(Header) + kAlignment - 1) / kAlignment * kAlignment;

// Of a block for so many bytes of data.
constexpr std::size_t BlockSize(std::size_t bytes) { return kAlignment + kHeader + bytes; }

// A tensor in a block, from the shelf if there is one, like another but for its data, which are not written.
inline DlManagedTensor* Fresh(void* block, const std::shared_ptr<Shelf>& shelf, DlTensor tensor) {
  if (!block) throw std::bad_alloc();
  const auto start = (reinterpret_cast<std::uintptr_t>(block) + kAlignment - 1) / kAlignment * kAlignment;
  auto* const memory = reinterpret_cast<std::byte*>(start);
  tensor.data = memory + kHeader;
  tensor.byte_offset = 0;
  auto* const header = new (memory) Header{{{1, 0}, nullptr, Header::Delete, 0, tensor}, shelf, block};
  header->managed.manager = header;
  return &header->managed;
}

inline py::object Handed(const DlExchange& exchange, DlManagedTensor* managed) {
  void* tensor = nullptr;
  if (exchange.to_object(managed, &tensor) != 0) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(static_cast<PyObject*>(tensor));
}

// Tensors that nobody has seen yet: memory at first, and Python's objects once they are taken. Memory that
// was not taken is let go of, by any thread.
class FreshTensors {
 public:
  FreshTensors() = default;
  FreshTensors(FreshTensors&& other) noexcept { *this = std::move(other); }
  FreshTensors& operator=(FreshTensors&& other) noexcept {
    std::swap(addresses, other.addresses);
    std::swap(managed, other.managed);
    std::swap(tensors, other.tensors);
    std::swap(num_rows, other.num_rows);
    return *this;
  }
  ~FreshTensors() {
    for (DlManagedTensor* one : managed) {
      if (one) Header::Delete(one);
    }
  }

  Addresses addresses;  // where the executor looks for them
  std::vector<DlManagedTensor*> managed;
  py::object tensors;  // by key, once they are there
  std::optional<std::int64_t> num_rows;
};

// Makes fresh tensors of given shapes and dtypes ("float32"), by key, and lists their addresses where the
// executor looks for them.
class TensorMemory {
 public:
  // A column that lies elsewhere: the address of row 0, and the bytes of a row.
  using Fixed = std::pair<std::uintptr_t, std::size_t>;

  // `tensor_type`: torch.Tensor. `from_dlpack`: what makes one of a capsule, where the type cannot be asked
  // in C. `positions`: of each tensor's address in a copy of `fixed`, whose other addresses stay. `make`:
  // what makes them all for a number of rows, where they need memory of another kind; None: the heap will do.
  TensorMemory(const py::object& tensor_type, py::object from_dlpack, const py::list& keys,
               const std::vector<std::pair<std::vector<std::int64_t>, std::string>>& tensors,
               const std::vector<std::size_t>& positions, std::vector<Fixed> fixed, py::object make)
      : exchange_(ExchangeOf(tensor_type)),
        from_dlpack_(std::move(from_dlpack)),
        make_(std::move(make)),
        fixed_(std::move(fixed)) {
    if (keys.size() != tensors.size() || positions.size() != tensors.size()) {
      throw py::value_error("expected as many keys and positions as tensors");
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& [shape, dtype] = tensors[i];
      const std::optional<DlDtype> known = DlDtypeOf(dtype);
      if (!known) throw py::value_error("unknown dtype " + dtype);
      Like like{keys[i], positions[i], shape, shape, *known, known->bits / 8u, nullptr};
      fixed_.at(like.position) = {0, 0};
      std::int64_t stride = 1;
      for (std::size_t dim = shape.size(); dim-- > 0; stride *= std::max<std::int64_t>(shape[dim], 1)) {
        like.strides[dim] = stride;
        if (dim > 0) like.row_bytes *= static_cast<std::size_t>(shape[dim]);
      }
      likes_.push_back(std::move(like));
    }
    LetGo();
  }

  // Tensors of all rows, or of so many, which stand for the envs from the `first` on.
  FreshTensors Begin(std::optional<std::int64_t> num_rows = std::nullopt, std::size_t first = 0) const {
    FreshTensors fresh;
    fresh.num_rows = num_rows;
    fresh.addresses.resize(fixed_.size());
    for (std::size_t i = 0; i < fixed_.size(); ++i) {
      const auto& [address, row_bytes] = fixed_[i];
      if (address != 0) fresh.addresses[i] = reinterpret_cast<std::byte*>(address + first * row_bytes);
    }
    if (!make_.is_none()) {
      MakeElsewhere(fresh);
      return fresh;
    }
    fresh.managed.reserve(likes_.size());
    for (const Like& like : likes_) {
      const std::size_t whole = like.Rows(std::nullopt), rows = like.Rows(num_rows);
      const std::shared_ptr<Shelf> shelf = rows == whole ? like.shelf : nullptr;
      void* const block = shelf ? shelf->Take() : std::malloc(BlockSize(rows * like.row_bytes));
      const auto ndim = static_cast<std::int32_t>(like.shape.size());
      fresh.managed.push_back(
          Fresh(block, shelf, {nullptr, {kDlCpu, 0}, ndim, like.dtype, nullptr, nullptr, 0}));
      fresh.addresses[like.position] = static_cast<std::byte*>(fresh.managed.back()->tensor.data);
    }
    return fresh;
  }

  // They as Python has them, by key.
  py::object Take(FreshTensors& fresh) const {
    if (fresh.tensors) return fresh.tensors;
    py::dict tensors;
    std::vector<std::int64_t> shape;
    for (std::size_t i = 0; i < likes_.size(); ++i) {
      const Like& like = likes_[i];
      shape = like.shape;
      if (fresh.num_rows && !shape.empty()) shape[0] = *fresh.num_rows;
      DlManagedTensor* const managed = std::exchange(fresh.managed[i], nullptr);
      managed->tensor.shape = shape.data();  // read while the tensor is made
      managed->tensor.strides = const_cast<std::int64_t*>(like.strides.data());
      const py::object tensor = exchange_ ? Handed(*exchange_, managed) : HandedInCapsule(managed);
      if (PyDict_SetItem(tensors.ptr(), like.key.ptr(), tensor.ptr()) != 0) throw py::error_already_set();
    }
    return fresh.tensors = std::move(tensors);
  }

  // Tensors that are not written yet, by key, and the addresses.
  std::pair<py::object, py::list> Make(std::optional<std::int64_t> num_rows) const {
    FreshTensors fresh = Begin(num_rows);
    py::list list(fresh.addresses.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      list[i] = py::int_(reinterpret_cast<std::uintptr_t>(fresh.addresses[i]));
    }
    return {Take(fresh), std::move(list)};
  }

  // Frees the memory that is kept for the next ones.
  void LetGo() {
    for (Like& like : likes_) {
      like.shelf = std::make_shared<Shelf>(BlockSize(like.Rows(std::nullopt) * like.row_bytes));
    }
  }

 private:
  struct Like {
    py::object key;
    std::size_t position;
    std::vector<std::int64_t> shape, strides;
    DlDtype dtype;
    std::size_t row_bytes;
    std::shared_ptr<Shelf> shelf;

    std::size_t Rows(const std::optional<std::int64_t>& num_rows) const {
      return static_cast<std::size_t>(shape.empty() ? 1 : num_rows.value_or(shape[0]));
    }
  };

  void MakeElsewhere(FreshTensors& fresh) const {
    const auto tensors = make_(fresh.num_rows).cast<py::dict>();
    if (tensors.size() != likes_.size()) throw py::value_error("expected a tensor for each key");
    for (const Like& like : likes_) {
      fresh.addresses[like.position] =
          reinterpret_cast<std::byte*>(tensors[like.key].attr("data_ptr")().cast<std::uintptr_t>());
    }
    fresh.tensors = tensors;
  }

  py::object HandedInCapsule(DlManagedTensor* managed) const {
    const auto capsule = py::reinterpret_steal<py::object>(PyCapsule_New(managed, kCapsule, FreeUntaken));
    if (!capsule) {
      Header::Delete(managed);
      throw py::error_already_set();
    }
    return from_dlpack_(capsule);
  }

  static void FreeUntaken(PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, kCapsule)) return;
    Header::Delete(static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule, kCapsule)));
  }

  const DlExchange* const exchange_;
  const py::object from_dlpack_, make_;
  std::vector<Fixed> fixed_;
  std::vector<Like> likes_;
};

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_TENSOR_MEMORY_H_

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
  Shelf(std::size_t bytes, bool keeps)
      : bytes_(bytes), most_(keeps ? std::clamp<std::size_t>(kMostBytes / bytes, kFewest, kMost) : 0) {
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

// Makes fresh tensors of given shapes and dtypes ("float32"), by key, and lists their addresses where the
// executor looks for them.
class TensorMemory {
 public:
  // `tensor_type`: torch.Tensor. `from_dlpack`: what makes one of a capsule, where the type cannot be asked
  // in C. `positions`: of each tensor's address in a copy of `addresses`, whose other numbers stay. `keeps`:
  // whether memory that nobody holds any more is kept for the next ones.
  TensorMemory(const py::object& tensor_type, py::object from_dlpack, const py::list& keys,
               const std::vector<std::pair<std::vector<std::int64_t>, std::string>>& tensors,
               const std::vector<std::size_t>& positions, std::vector<std::size_t> addresses, bool keeps)
      : exchange_(ExchangeOf(tensor_type)),
        from_dlpack_(std::move(from_dlpack)),
        addresses_(std::move(addresses)) {
    if (keys.size() != tensors.size() || positions.size() != tensors.size()) {
      throw py::value_error("expected as many keys and positions as tensors");
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& [shape, dtype] = tensors[i];
      const std::optional<DlDtype> known = DlDtypeOf(dtype);
      if (!known) throw py::value_error("unknown dtype " + dtype);
      Like like{keys[i], positions[i], shape, shape, *known, nullptr};
      addresses_.at(like.position) = 0;
      std::size_t bytes = like.dtype.bits / 8;
      std::int64_t stride = 1;
      for (std::size_t dim = shape.size(); dim-- > 0; stride *= std::max<std::int64_t>(shape[dim], 1)) {
        like.strides[dim] = stride;
        bytes *= static_cast<std::size_t>(shape[dim]);
      }
      like.shelf = std::make_shared<Shelf>(BlockSize(bytes), keeps);
      likes_.push_back(std::move(like));
    }
  }

  std::size_t size() const { return addresses_.size(); }

  // Tensors that are not written yet, by key, and the addresses. Shapes are read while they are made.
  std::pair<py::dict, py::list> Make() {
    py::list list(addresses_.size());
    std::vector<std::size_t> addresses;
    py::dict tensors = MakeAt(addresses);
    for (std::size_t i = 0; i < addresses.size(); ++i) list[i] = py::int_(addresses[i]);
    return {std::move(tensors), std::move(list)};
  }

  // The same, with the addresses in a vector.
  py::dict MakeAt(std::vector<std::size_t>& addresses) {
    py::dict tensors;
    addresses = addresses_;
    for (Like& like : likes_) {
      const auto ndim = static_cast<std::int32_t>(like.shape.size());
      DlManagedTensor* const managed =
          Fresh(like.shelf->Take(), like.shelf,
                {nullptr, {kDlCpu, 0}, ndim, like.dtype, like.shape.data(), like.strides.data(), 0});
      addresses[like.position] = reinterpret_cast<std::uintptr_t>(managed->tensor.data);
      const py::object tensor = exchange_ ? Handed(*exchange_, managed) : HandedInCapsule(managed);
      if (PyDict_SetItem(tensors.ptr(), like.key.ptr(), tensor.ptr()) != 0) throw py::error_already_set();
    }
    return tensors;
  }

 private:
  struct Like {
    py::object key;
    std::size_t position;
    std::vector<std::int64_t> shape, strides;
    DlDtype dtype;
    std::shared_ptr<Shelf> shelf;
  };

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
  py::object from_dlpack_;
  std::vector<std::size_t> addresses_;
  std::vector<Like> likes_;
};

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_TENSOR_MEMORY_H_

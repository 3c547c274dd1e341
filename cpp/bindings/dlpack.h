// DLPack 1.3 (github.com/dmlc/dlpack, include/dlpack/dlpack.h), as far as torch's tensors come and go by it.
#ifndef TORCHRL_POOL_BINDINGS_DLPACK_H_
#define TORCHRL_POOL_BINDINGS_DLPACK_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>

namespace torchrl_pool::bindings {

struct DlVersion {
  std::uint32_t major, minor;
};
struct DlDevice {
  std::int32_t type, id;
};
struct DlDtype {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DlDtype dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DlManagedTensor {
  DlVersion version;
  void* manager;
  void (*deleter)(DlManagedTensor*);
  std::uint64_t flags;
  DlTensor tensor;
};

constexpr std::int32_t kDlCpu = 1;
constexpr std::uint8_t kDlInt = 0, kDlUint = 1, kDlFloat = 2, kDlComplex = 5, kDlBool = 6;

// What a type of tensors offers to C.
struct DlExchange {
  DlVersion version;
  const void* older;
  void (*allocate)();
  int (*share)(void* object, DlManagedTensor** out);
  int (*to_object)(DlManagedTensor* tensor, void** out);  // takes the tensor over
  int (*look_at)(void* object, DlTensor* out);            // good for as long as nobody else does anything
  void (*stream)();
};

// A tensor type's. Null: it has none, as torch's before 2.10.
const DlExchange* ExchangeOf(pybind11::handle type);

// Of a number type by its name ("float32"). Nothing: there are no such numbers here.
std::optional<DlDtype> DlDtypeOf(const std::string& name);

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_DLPACK_H_

#include "dlpack.h"

#include <algorithm>

namespace py = pybind11;

namespace torchrl_pool::bindings {

const DlExchange* ExchangeOf(py::handle type) {
  const py::object capsule = py::getattr(type, "__dlpack_c_exchange_api__", py::none());
  constexpr const char* kName = "dlpack_exchange_api";
  if (!PyCapsule_IsValid(capsule.ptr(), kName)) return nullptr;
  const auto* const exchange = static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule.ptr(), kName));
  return exchange->version.major == 1 && exchange->look_at ? exchange : nullptr;
}

std::optional<DlDtype> DlDtypeOf(const std::string& name) {
  if (name == "bool") return DlDtype{kDlBool, 8, 1};
  const std::size_t digits = std::min(name.find_first_of("0123456789"), name.size());
  const std::string kind = name.substr(0, digits);
  if (kind != "int" && kind != "uint" && kind != "float") return std::nullopt;
  const std::uint8_t code = kind == "int" ? kDlInt : kind == "uint" ? kDlUint : kDlFloat;
  return DlDtype{code, static_cast<std::uint8_t>(std::stoi(name.substr(digits))), 1};
}

}  // namespace torchrl_pool::bindings

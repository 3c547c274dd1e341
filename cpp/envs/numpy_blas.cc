#include "numpy_blas.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "torchrl_pool/env.h"

namespace torchrl_pool {
namespace {

const Package numpy("numpy");

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;  // of cblas.h

// Where NumPy's wheels bring theirs.
std::filesystem::path Libraries() {
  const std::filesystem::path package(numpy.folder());
#ifdef __APPLE__
  return package / ".dylibs";
#else
  return package.parent_path() / "numpy.libs";
#endif
}

// The routines, under the names that NumPy's wheels give them.
struct Blas {
  double (*dot)(std::int64_t n, const double* x, std::int64_t dx, const double* y, std::int64_t dy) = nullptr;
  void (*gemv)(int order, int trans, std::int64_t m, std::int64_t n, double alpha, const double* a,
               std::int64_t lda, const double* x, std::int64_t dx, double beta, double* y,
               std::int64_t dy) = nullptr;
  void (*gemm)(int order, int trans_a, int trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
               double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
               double beta, double* c, std::int64_t ldc) = nullptr;

  Blas() {
    std::error_code missing;
    for (const auto& file : std::filesystem::directory_iterator(Libraries(), missing)) {
      if (file.path().filename().string().find("openblas64_") == std::string::npos) continue;
      // Never closed; NumPy itself has it open in nearly every process.
      void* const library = dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) continue;
      dot = reinterpret_cast<decltype(dot)>(dlsym(library, "scipy_cblas_ddot64_"));
      gemv = reinterpret_cast<decltype(gemv)>(dlsym(library, "scipy_cblas_dgemv64_"));
      gemm = reinterpret_cast<decltype(gemm)>(dlsym(library, "scipy_cblas_dgemm64_"));
      if (dot && gemv && gemm) return;
      *this = Blas(nullptr);
    }
  }

 private:
  explicit Blas(std::nullptr_t) {}
};

const Blas& TheBlas() {
  static const Blas blas;
  return blas;
}

}  // namespace

double Dot(const double* a, const double* b, int count) {
  if (const auto dot = TheBlas().dot) return dot(count, a, 1, b, 1);
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

double Norm(const double* a, int count) { return std::sqrt(Dot(a, a, count)); }

void Product(const double* matrix, int rows, int columns, const double* v, double* out) {
  if (const auto gemv = TheBlas().gemv) {
    return gemv(kRowMajor, kNoTrans, rows, columns, 1.0, matrix, columns, v, 1, 0.0, out, 1);
  }
  for (int i = 0; i < rows; ++i) out[i] = Dot(matrix + i * columns, v, columns);
}

std::array<double, 3> Turned(const std::array<double, 3>& v, const double* frame) {
  std::array<double, 3> out;
  if (const auto gemv = TheBlas().gemv) {
    gemv(kRowMajor, kTrans, 3, 3, 1.0, frame, 3, v.data(), 1, 0.0, out.data(), 1);
  } else {
    Turn(v.data(), 1, frame, out.data());
  }
  return out;
}

void Turn(const double* rows, int count, const double* frame, double* out) {
  if (const auto gemm = TheBlas().gemm) {
    return gemm(kRowMajor, kNoTrans, kNoTrans, count, 3, 3, 1.0, rows, 3, frame, 3, 0.0, out, 3);
  }
  for (int i = 0; i < count; ++i) {
    const double* v = rows + 3 * i;
    for (int k = 0; k < 3; ++k) out[3 * i + k] = v[0] * frame[k] + v[1] * frame[3 + k] + v[2] * frame[6 + k];
  }
}

}  // namespace torchrl_pool

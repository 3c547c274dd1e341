// EGL and OSMesa are looked up when first used, with the few declarations needed from them written out here:
// no graphics package is needed to build, and a machine without one runs everything but pictures.
#include "gl_context.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

// A shared library and its functions; Unsupported where one is missing.
class Library {
 public:
  // With symbols visible to all: MuJoCo looks for the loader of OpenGL's functions among them.
  explicit Library(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (!handle_) handle_ = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!handle_) throw Unsupported(dlerror());
  }
  template <class Function>
  void Get(const char* name, Function** function) const {
    *function = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (!*function) throw Unsupported(std::string("no function ") + name);
  }

 private:
  void* handle_ = nullptr;  // for the life of the process: drivers do not like to be unloaded
};

// ---- EGL ----

using EglHandle = void*;  // display, device, config, context, surface
using EglInt = std::int32_t;
using EglBool = unsigned;

struct Egl {
  Library library{"libEGL.so.1", "libEGL.so"};
  void* (*get_proc_address)(const char*);
  EglInt (*get_error)();
  EglBool (*initialize)(EglHandle, EglInt*, EglInt*);
  EglBool (*choose_config)(EglHandle, const EglInt*, EglHandle*, EglInt, EglInt*);
  EglBool (*bind_api)(unsigned);
  EglHandle (*create_context)(EglHandle, EglHandle, EglHandle, const EglInt*);
  EglBool (*destroy_context)(EglHandle, EglHandle);
  EglBool (*make_current)(EglHandle, EglHandle, EglHandle, EglHandle);
  EglHandle (*get_current_context)();
  EglHandle (*get_current_display)();
  EglHandle (*get_current_surface)(EglInt);
  EglHandle display = nullptr;

  Egl() {
    library.Get("eglGetProcAddress", &get_proc_address);
    library.Get("eglGetError", &get_error);
    library.Get("eglInitialize", &initialize);
    library.Get("eglChooseConfig", &choose_config);
    library.Get("eglBindAPI", &bind_api);
    library.Get("eglCreateContext", &create_context);
    library.Get("eglDestroyContext", &destroy_context);
    library.Get("eglMakeCurrent", &make_current);
    library.Get("eglGetCurrentContext", &get_current_context);
    library.Get("eglGetCurrentDisplay", &get_current_display);
    library.Get("eglGetCurrentSurface", &get_current_surface);
    OpenDisplay();
  }

  std::string Error() const {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string code = "EGL error 0x";
    const EglInt error = get_error();
    for (int shift = 12; shift >= 0; shift -= 4) code += kDigits[error >> shift & 15];
    return code;
  }

 private:
  // On a device itself, without a window system (EGL_EXT_platform_device).
  void OpenDisplay() {
    constexpr unsigned kPlatformDevice = 0x313F;
    EglBool (*query_devices)(EglInt, EglHandle*, EglInt*);
    EglHandle (*get_platform_display)(unsigned, EglHandle, const EglInt*);
    Extension("eglQueryDevicesEXT", &query_devices);
    Extension("eglGetPlatformDisplayEXT", &get_platform_display);
    std::array<EglHandle, 64> devices{};
    EglInt count = 0;
    if (!query_devices(static_cast<EglInt>(devices.size()), devices.data(), &count))
      throw Unsupported(Error());
    EglInt first = 0;
    if (const char* selected = std::getenv("MUJOCO_EGL_DEVICE_ID")) {
      char* end = nullptr;
      const long index = std::strtol(selected, &end, 10);
      if (end == selected || *end || index < 0 || index >= count) {
        throw InvalidArgument("MUJOCO_EGL_DEVICE_ID must be an integer between 0 and " +
                              std::to_string(count - 1) + ", got '" + selected + "'");
      }
      first = static_cast<EglInt>(index);
      count = first + 1;
    }
    for (EglInt i = first; i < count; ++i) {
      display = get_platform_display(kPlatformDevice, devices[static_cast<std::size_t>(i)], nullptr);
      if (display && initialize(display, nullptr, nullptr)) return;
    }
    throw Unsupported("none of its " + std::to_string(count - first) + " devices has a display; " + Error());
  }

  template <class Function>
  void Extension(const char* name, Function** function) const {
    *function = reinterpret_cast<Function*>(get_proc_address(name));
    if (!*function) throw Unsupported(std::string("no function ") + name);
  }
};

class EglContext : public GlContext {
 public:
  EglContext() {
    constexpr EglInt kAttributes[] = {0x3024, 8,       // EGL_RED_SIZE
                                      0x3023, 8,       // EGL_GREEN_SIZE
                                      0x3022, 8,       // EGL_BLUE_SIZE
                                      0x3021, 8,       // EGL_ALPHA_SIZE
                                      0x3025, 24,      // EGL_DEPTH_SIZE
                                      0x3026, 8,       // EGL_STENCIL_SIZE
                                      0x303F, 0x308E,  // EGL_COLOR_BUFFER_TYPE: EGL_RGB_BUFFER
                                      0x3033, 0x0001,  // EGL_SURFACE_TYPE: EGL_PBUFFER_BIT
                                      0x3040, 0x0008,  // EGL_RENDERABLE_TYPE: EGL_OPENGL_BIT
                                      0x3038};         // EGL_NONE
    constexpr unsigned kOpenGl = 0x30A2;
    EglHandle config = nullptr;
    EglInt count = 0;
    if (!egl_.choose_config(egl_.display, kAttributes, &config, 1, &count) || count < 1) {
      throw Unsupported("no framebuffer of 24-bit colour and depth; " + egl_.Error());
    }
    if (!egl_.bind_api(kOpenGl)) throw Unsupported("no OpenGL; " + egl_.Error());
    context_ = egl_.create_context(egl_.display, config, nullptr, nullptr);
    if (!context_) throw Unsupported("cannot create a context; " + egl_.Error());
  }
  ~EglContext() override { egl_.destroy_context(egl_.display, context_); }

  bool MakeCurrent() override {
    constexpr EglInt kDraw = 0x3059, kRead = 0x305A;
    previous_ = {egl_.get_current_display(), egl_.get_current_surface(kDraw), egl_.get_current_surface(kRead),
                 egl_.get_current_context()};
    return egl_.make_current(egl_.display, nullptr, nullptr, context_);
  }
  void Release() override {
    const auto& [display, draw, read, context] = previous_;
    if (context) {
      egl_.make_current(display, draw, read, context);
    } else {
      egl_.make_current(egl_.display, nullptr, nullptr, nullptr);
    }
  }

 private:
  static const Egl& Get() {
    static const Egl egl;
    return egl;
  }
  const Egl& egl_ = Get();
  EglHandle context_ = nullptr;
  std::array<EglHandle, 4> previous_{};
};

// ---- OSMesa ----

struct OsMesa {
  Library library{"libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"};
  void* (*create_context)(unsigned, EglInt, EglInt, EglInt, void*);
  void (*destroy_context)(void*);
  unsigned char (*make_current)(void*, void*, unsigned, EglInt, EglInt);
  void* (*get_current_context)();

  OsMesa() {
    library.Get("OSMesaCreateContextExt", &create_context);
    library.Get("OSMesaDestroyContext", &destroy_context);
    library.Get("OSMesaMakeCurrent", &make_current);
    library.Get("OSMesaGetCurrentContext", &get_current_context);
  }
};

class OsMesaContext : public GlContext {
 public:
  OsMesaContext() {
    constexpr unsigned kRgba = 0x1908;
    context_ = mesa_.create_context(kRgba, 24, 8, 0, nullptr);
    if (!context_) throw Unsupported("cannot create a context");
  }
  ~OsMesaContext() override { mesa_.destroy_context(context_); }

  // The buffer is a formality: MuJoCo draws into a framebuffer of its own.
  bool MakeCurrent() override {
    constexpr unsigned kUnsignedByte = 0x1401;
    return mesa_.make_current(context_, buffer_.data(), kUnsignedByte, kSize, kSize);
  }
  void Release() override { mesa_.make_current(nullptr, nullptr, 0, 0, 0); }

 private:
  static constexpr EglInt kSize = 16;
  static const OsMesa& Get() {
    static const OsMesa mesa;
    return mesa;
  }
  const OsMesa& mesa_ = Get();
  void* context_ = nullptr;
  std::array<std::uint32_t, kSize * kSize> buffer_{};
};

std::string RequestedBackend() {
  const char* value = std::getenv("MUJOCO_GL");
  std::string name = value ? value : "";
  std::erase_if(name, [](unsigned char c) { return std::isspace(c); });
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::unique_ptr<GlContext> CreateGlContext() {
  const std::string name = RequestedBackend();
  if (IsOneOf(name, {"disable", "disabled", "off", "false", "0"})) {
    throw Unsupported("cannot draw: MUJOCO_GL=" + name + " turns rendering off");
  }
  const bool any = IsOneOf(name, {"", "enable", "enabled", "on", "true", "1"});
  if (!any && !IsOneOf(name, {"egl", "osmesa"})) {
    throw Unsupported("cannot draw: pictures are drawn offscreen, through MUJOCO_GL=egl or osmesa, got '" +
                      name + "'");
  }
  std::string failures;
  if (any || name == "egl") {
    try {
      return std::make_unique<EglContext>();
    } catch (const Unsupported& error) {
      failures += std::string("EGL: ") + error.what();
    }
  }
  if (any || name == "osmesa") {
    try {
      return std::make_unique<OsMesaContext>();
    } catch (const Unsupported& error) {
      failures += std::string(failures.empty() ? "" : "; ") + "OSMesa: " + error.what();
    }
  }
  throw Unsupported("cannot draw without OpenGL (install libegl1 with a driver, or libosmesa6): " + failures);
}

}  // namespace torchrl_pool::mujoco

"""compile.py TOOLKIT SOURCES DESTINATION [ARCHITECTURE...]: compiles every .cu of a folder for every target,
or for those named, such as sm_90a.

Images are compressed. All of them are written, or none: when all kernels compile.
"""

import ctypes
import gzip
import os
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

# Suffixes of images as kernels/cuda/image.go knows them, and what they are made for.
TARGETS = {
    "sm_80.cubin": "sm_80",
    "sm_90a.cubin": "sm_90a",
    "compute_80.ptx": "compute_80",
}


class Compiler:
    def __init__(self, toolkit):
        self.lib = ctypes.CDLL(str(toolkit / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"))
        self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        includes = [toolkit / "nvidia" / part / "include" for part in ("cuda_runtime", "cuda_nvcc", "cuda_cccl")]
        # Products are fused into sums only where the source says so.
        self.options = ["--std=c++17", "--fmad=false", "--device-as-default-execution-space"]
        self.options += [f"--include-path={path}" for path in includes]

    def check(self, result, what):
        if result:
            raise RuntimeError(f"{what}: {self.lib.nvrtcGetErrorString(result).decode()}")

    def text(self, program, kind):
        size = ctypes.c_size_t()
        self.check(getattr(self.lib, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)), kind)
        text = ctypes.create_string_buffer(size.value)
        self.check(getattr(self.lib, f"nvrtcGet{kind}")(program, text), kind)
        return text.raw

    def compile(self, source, target):
        program = ctypes.c_void_p()
        self.check(
            self.lib.nvrtcCreateProgram(
                ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None
            ),
            source,
        )
        options = [*self.options, f"--include-path={source.parent}", f"--gpu-architecture={target}"]
        argv = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        failed = self.lib.nvrtcCompileProgram(program, len(options), argv)
        log = self.text(program, "ProgramLog").rstrip(b"\0").decode()
        # So ptxas says that wgmma wait for each other, or that setmaxnreg is left out: it would be right, and slow.
        if failed or "Potential Performance Loss" in log:
            raise RuntimeError(f"{source} for {target}:\n{log}")
        image = self.text(program, "PTX" if target.startswith("compute") else "CUBIN")
        self.check(self.lib.nvrtcDestroyProgram(ctypes.byref(program)), source)
        return image


def main(toolkit, sources, destination, *only):
    compiler = Compiler(pathlib.Path(toolkit).resolve())
    files = sorted(pathlib.Path(sources).glob("*.cu"))
    if not files:
        raise RuntimeError(f"{sources} has no .cu files")
    if unknown := set(only) - set(TARGETS.values()):
        raise RuntimeError(f"no targets: {sorted(unknown)}; there are {list(TARGETS.values())}")
    images = {f"{source.stem}.{suffix}": (source, target) for source in files for suffix, target in TARGETS.items() if not only or target in only}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the library computes without Python's lock
        made = dict(zip(images, pool.map(lambda image: compiler.compile(*image), images.values())))
    folder = pathlib.Path(destination)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, image in made.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(image, mtime=0))
    print(f"{len(made)} images of {len(files)} sources, {sum(map(len, made.values()))} bytes")


try:
    main(*sys.argv[1:])
except RuntimeError as error:
    sys.exit(f"compiling kernels: {error}")

//go:build emulate

package emulate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// flags keep the compiler from fusing what the source does not, as nvrtc is told to.
var flags = []string{
	"-std=c++17", "-O1", "-ffp-contract=off", "-U_FORTIFY_SOURCE", "-fPIC", "-shared",
	"-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unknown-pragmas",
}

// build compiles the library, unless one of these sources is there already.
func build() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(here), "cpp")
	sum, err := digest(dir, filepath.Join(dir, "../../src"))
	if err != nil {
		return "", err
	}
	cache := filepath.Join(dir, "../../../../.cache")
	library := filepath.Join(cache, fmt.Sprintf("kernels-%.12x.so", sum))
	if _, err := os.Stat(library); !errors.Is(err, fs.ErrNotExist) {
		return library, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	return library, compile(dir, library)
}

// digest is that of the flags and all files that the library is made of.
func digest(dirs ...string) ([]byte, error) {
	h := sha256.New()
	h.Write(fmt.Appendln(nil, flags))
	for _, dir := range dirs {
		for _, pattern := range []string{"*.h", "*.cc", "*.cuh", "*.cu"} {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					return nil, err
				}
				h.Write(fmt.Appendf(nil, "%s %d\n%s", filepath.Base(file), len(text), text))
			}
		}
	}
	return h.Sum(nil), nil
}

// compile writes beside the library first: others may compile it too.
func compile(dir, library string) error {
	own := fmt.Sprintf("%s.%d", library, os.Getpid())
	cmd := exec.CommandContext(context.Background(), "g++", append(flags, "-o", own, "library.cc", "block.cc", "hopper.cc")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the kernels for the emulator with g++: %w\n%s", err, out)
	}
	return os.Rename(own, library)
}

package cli

import (
	"strings"
	"testing"
)

// Children have their settings as arguments, and the machine's from the environment.
func TestIsSetting(t *testing.T) {
	for variable, want := range map[string]bool{
		"SWITCHYARD_PRECISION=q8": true, "SWITCHYARD_CONFIG=a.yaml": true, "SWITCHYARD_KV_CACHE_DTYPE=int8": true,
		"SWITCHYARD_KERNELS=avx2": false, "SWITCHYARD_KERNEL=avx2": false, "SWITCHYARD_NO_AVX512=1": false, "SWITCHYARD_NO_AMX=1": false, "PATH=/bin": false, "GOMAXPROCS=1": false,
	} {
		if IsSetting(variable) != want {
			t.Errorf("%s: %v", variable, !want)
		}
	}
}

// A variable that nothing reads is told with the one that it is like.
func TestStrayVariables(t *testing.T) {
	parser, err := NewParser(&struct {
		KVMemory string `name:"kv-memory" env:"SWITCHYARD_KV_MEMORY"`
		LogLevel string `env:"SWITCHYARD_LOG_LEVEL"`
	}{})
	if err != nil {
		t.Fatal(err)
	}
	for variable, want := range map[string]string{
		"SWITCHYARD_KV_MEMROY": "SWITCHYARD_KV_MEMROY (did you mean SWITCHYARD_KV_MEMORY?)", "SWITCHYARD_LOGLEVEL": "SWITCHYARD_LOGLEVEL (did you mean SWITCHYARD_LOG_LEVEL?)",
		"SWITCHYARD_NO_AVX51": "SWITCHYARD_NO_AVX51 (did you mean SWITCHYARD_NO_AVX512?)", "SWITCHYARD_KV_MEMORY": "", "SWITCHYARD_DEMO_SERVICE_HOST": "",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "1")
			if got := strings.Join(strayVariables(parser.Model), ", "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

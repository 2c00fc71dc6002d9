// Package scaling compares "switchyard up" with its control loop and without, live and from
// outside: a NATS client sends the same requests to both, at a steady rate, in a burst, and
// after a change of topic. Runs alternate, so that what else the machine does meets both. It is a
// test of its own, started with SWITCHYARD_SCALING=5, the number of pairs; it fails if a request
// does, and prints the rest: ratios with their 95 % intervals.
package scaling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// runs are what is compared: what --scaling says.
var runs = [2]string{"none", "auto"}

// profile is of the device that hosts pretend to be.
const profile = "../../pkg/compute/device/paced/profiles/a6000-mixtral.yaml"

// rowSeconds is the line of the profile that SWITCHYARD_SCALING_ROWS multiplies: with 20, devices
// dominate; with 1, messages do.
const rowSeconds = 57.3e-6

func TestScaling(t *testing.T) {
	pairs, err := strconv.Atoi(os.Getenv("SWITCHYARD_SCALING"))
	if err != nil || pairs < 1 || pairs > quantile.MostValues {
		t.Skip("set SWITCHYARD_SCALING to a number of pairs from 1 to 20 to run it (two minutes and a half each)")
	}
	first, err := strconv.Atoi(cmp.Or(os.Getenv("SWITCHYARD_SCALING_FIRST"), "1"))
	if err != nil || first < 1 {
		t.Fatal("SWITCHYARD_SCALING_FIRST is the number of the first pair, from 1: where several of these run side by side, no pair is run twice")
	}
	program, device := filepath.Join(fleet.Build(t), "switchyard"), pretended(t)
	var all [2][]measured
	for i := range pairs {
		for k := range runs {
			k = (k + i) % len(runs) // each begins every other pair
			m := run(t, program, device, runs[k], uint64(first+i-1))
			all[k] = append(all[k], m)
			line, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("pair %d, --scaling %s: %s", first+i, runs[k], line)
		}
	}
	t.Logf("%s of %s, with 95 %% intervals of %d pairs:\n%s", runs[1], runs[0], pairs, table(all))
}

// pretended is the profile with dearer rows, in a file.
func pretended(t *testing.T) string {
	t.Helper()
	times, err := strconv.ParseFloat(cmp.Or(os.Getenv("SWITCHYARD_SCALING_ROWS"), "20"), 64)
	if err != nil || times <= 0 {
		t.Fatal("SWITCHYARD_SCALING_ROWS is how many times as long a row takes as the profile says, such as 20")
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	dear := strings.Replace(string(text), "value: 57.3e-6", fmt.Sprintf("value: %g", rowSeconds*times), 1)
	if dear == string(text) {
		t.Fatalf("%s does not say that a row takes 57.3e-6 s", profile)
	}
	path := filepath.Join(t.TempDir(), "device.yaml")
	if err := os.WriteFile(path, []byte(dear), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run starts a pipeline, offers it the phases, and ends it.
func run(t *testing.T, program, device, scaling string, seed uint64) measured {
	t.Helper()
	addr, metrics := testkit.FreeAddr(t), testkit.FreeAddr(t)
	p := fleet.Launch(t, "up", program, "up", "--listen", addr, "--metrics-addr", metrics, "--http", "off",
		"--device", "paced", "--profile", device, "--profile-time", "printed", "--hosts", "8", "--scaling", scaling)
	p.Await(t, "ready")
	defer p.Drain(t)
	return offer(t, addr, metrics, seed)
}

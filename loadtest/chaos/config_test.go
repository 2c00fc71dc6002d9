package chaos

import (
	"cmp"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// config is what a run with a schedule is made of.
type config struct {
	schedule.Settings
	programs, prefix, model string
	// file has the schedule, if it is not to be made.
	file string
	// login is what servers that somebody else runs want to see.
	login []nats.Option
	// out is where reports go; "" is nowhere.
	out string
	// shrink is how many runs a failing schedule may be shrunk with.
	shrink int
}

// lengths are those of the modes; SWITCHYARD_CHAOS_MINUTES overrides them.
var lengths = map[string]time.Duration{"1": 2 * time.Minute, "long": 5 * time.Minute, "each": 10 * time.Minute, served: 2 * time.Minute}

// served is the mode in which somebody else runs the services.
const served = "served"

// plan is the schedule of the file that was named, or made from the seed.
func (c config) plan(t *testing.T) schedule.Schedule {
	t.Helper()
	if c.file != "" {
		return read(t, c.file)
	}
	return schedule.Random(c.Settings)
}

// settingsOf reads the environment; docs/chaos.md has the variables.
func settingsOf(t *testing.T, mode string) config {
	t.Helper()
	c := config{
		prefix: variable("PREFIX", "switchyard"), model: variable("MODEL", "demo"),
		file: variable("SCHEDULE", ""), out: variable("OUT", ""), shrink: number(t, "SHRINK", 0),
	}
	servers := 1
	if mode == served {
		servers, c.login = 0, loginOf() // whose server it is may not want it killed
		if c.shrink > 0 {
			t.Fatal("SWITCHYARD_CHAOS_SHRINK plays parts of a schedule with processes of its own: it is of no use with those that you run")
		}
	} else {
		c.programs = fleet.BuildClocked(t)
	}
	c.Settings = schedule.Settings{
		Seed: uint64(number(t, "SEED", 1)), Length: lengths[mode], Every: duration(t, "EVERY", 3*time.Second), Leader: duration(t, "LEADER", 0),
		Replicas: map[string]int{schedule.Server: number(t, "SERVERS", servers)},
	}
	if servers := c.Replicas[schedule.Server]; c.Leader > 0 && servers < 3 {
		t.Fatalf("SWITCHYARD_CHAOS_LEADER wants a cluster that goes on without its leader, and SWITCHYARD_CHAOS_SERVERS is %d; set it to 3", servers)
	}
	if minutes := number(t, "MINUTES", 0); minutes > 0 {
		c.Length = time.Duration(minutes) * time.Minute
	}
	for _, service := range schedule.Services {
		c.Replicas[service] = number(t, "REPLICAS", 2)
	}
	c.Kinds = wantedKinds(t, mode)
	return c
}

// wantedKinds are those that were asked for, or else all that can be done here.
func wantedKinds(t *testing.T, mode string) (out []schedule.Kind) {
	t.Helper()
	for _, kind := range strings.Fields(variable("KINDS", "")) {
		if !slices.Contains(schedule.Kinds, schedule.Kind(kind)) {
			t.Fatalf("SWITCHYARD_CHAOS_KINDS has %q; use some of %v", kind, schedule.Kinds)
		}
		out = append(out, schedule.Kind(kind))
	}
	switch {
	case len(out) > 0:
		return out
	case mode == served:
		return signalled
	}
	_, noDisk := fleet.NewDisk(t)
	for _, kind := range schedule.Kinds {
		switch {
		case kind == schedule.Disk && noDisk != nil:
			t.Logf("no disk will be full: %v", noDisk)
		case kind == schedule.Memory && runtime.GOOS != "linux":
			t.Log("no memory will be short: that needs Linux")
		default:
			out = append(out, kind)
		}
	}
	return out
}

func variable(name, otherwise string) string {
	return cmp.Or(os.Getenv("SWITCHYARD_CHAOS_"+name), otherwise)
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(variable(name, strconv.Itoa(otherwise)))
	if err != nil || n < 0 {
		t.Fatalf("SWITCHYARD_CHAOS_%s is %q; it must be a whole number from 0 on", name, variable(name, ""))
	}
	return n
}

func duration(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	text := variable(name, "")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("SWITCHYARD_CHAOS_%s is %q; it must be a time such as 3s", name, text)
	}
	return d
}

package chaos

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// config is what a run with a schedule is made of.
type config struct {
	schedule.Settings
	programs, prefix, model string
	// file has the schedule, if it is not to be made.
	file string
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
	if mode != served {
		c.programs = fleet.Build(t)
	}
	c.Settings = schedule.Settings{
		Seed: uint64(number(t, "SEED", 1)), Length: lengths[mode], Every: duration(t, "EVERY", 3*time.Second),
		Replicas: map[string]int{schedule.Server: number(t, "SERVERS", 1)},
	}
	if minutes := number(t, "MINUTES", 0); minutes > 0 {
		c.Length = time.Duration(minutes) * time.Minute
	}
	for _, service := range schedule.Services {
		c.Replicas[service] = number(t, "REPLICAS", 2)
	}
	for _, kind := range strings.Fields(variable("KINDS", "")) {
		if !slices.Contains(schedule.Kinds, schedule.Kind(kind)) {
			t.Fatalf("SWITCHYARD_CHAOS_KINDS has %q; use some of %v", kind, schedule.Kinds)
		}
		c.Kinds = append(c.Kinds, schedule.Kind(kind))
	}
	return c
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
	d, err := time.ParseDuration(variable(name, otherwise.String()))
	if err != nil || d <= 0 {
		t.Fatalf("SWITCHYARD_CHAOS_%s is %q; it must be a time such as 3s", name, variable(name, ""))
	}
	return d
}

package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a schedule that is read may ask for.
const (
	maxFaults  = 100_000
	maxTime    = 48 * time.Hour
	maxReplica = 1000
)

// String is a line a fault: when, what, whom, for how long.
func (s Schedule) String() string {
	var b strings.Builder
	for _, f := range s {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

func (f Fault) String() string { return fmt.Sprintf("%v %s %v %v", f.At, f.Kind, f.Target, f.For) }

// Arguments are the fault's kind, service, replica and seconds, for a program that
// does it.
func (f Fault) Arguments() []string {
	_, replica, _ := strings.Cut(f.Target.String(), "/")
	return []string{string(f.Kind), f.Target.Service, replica, strconv.FormatFloat(f.For.Seconds(), 'f', -1, 64)}
}

// String is the service and the replica's place, with * for all of them.
func (t Target) String() string {
	if t.Replica == All {
		return t.Service + "/*"
	}
	return t.Service + "/" + strconv.Itoa(t.Replica)
}

// Parse reads what String has written; empty lines and those that begin with #
// say nothing.
func Parse(text string) (Schedule, error) {
	var out Schedule
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f, err := parseFault(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(out) == maxFaults {
			return nil, fmt.Errorf("line %d: there are more than %d faults", number, maxFaults)
		}
		if len(out) > 0 && f.At < out[len(out)-1].At {
			return nil, fmt.Errorf("line %d: the fault at %v comes after that at %v; write them in order", number, f.At, out[len(out)-1].At)
		}
		out = append(out, f)
	}
	return out, nil
}

func parseFault(line string) (f Fault, err error) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return f, fmt.Errorf("%q has %d words; a fault has 4: when, what, whom, for how long", line, len(fields))
	}
	if f.At, err = parseTime(fields[0]); err != nil {
		return f, err
	}
	if f.For, err = parseTime(fields[3]); err != nil {
		return f, err
	}
	f.Kind = Kind(fields[1])
	if !slices.Contains(Kinds, f.Kind) {
		return f, fmt.Errorf("%q is no kind of fault; use one of %v", fields[1], Kinds)
	}
	if f.Target, err = parseTarget(fields[2]); err != nil {
		return f, err
	}
	if !f.Kind.hits(f.Target) {
		return f, fmt.Errorf("%s cannot hit %v", f.Kind, f.Target)
	}
	return f, nil
}

func parseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no time such as 1.5s", text)
	}
	if d < 0 || d > maxTime {
		return 0, fmt.Errorf("%v is out of range; it must be from 0 to %v", d, maxTime)
	}
	return d, nil
}

func parseTarget(text string) (t Target, err error) {
	service, replica, ok := strings.Cut(text, "/")
	if !ok {
		return t, fmt.Errorf("%q is no target such as gate/0 or gate/*", text)
	}
	t = Target{Service: service, Replica: All}
	if replica == Any {
		return t, nil
	}
	if t.Replica, err = strconv.Atoi(replica); err != nil || t.Replica < 0 || t.Replica > maxReplica {
		return t, fmt.Errorf("%q is no target: a replica is a number from 0 to %d, or *", text, maxReplica)
	}
	return t, nil
}

package top

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

const (
	statPacedComputes = "paced_computes_total"
	statPacedLate     = "paced_computes_late_total"
	statPacedLoads    = "paced_loads_total"
	statPacedLoadLate = "paced_loads_late_total"
	statPacedSeconds  = "paced_release_late_seconds_total"
)

// pacedPrefix begins the names of devices that are paced.
const pacedPrefix = "paced:"

// paced says whose times the figures are, how often this machine did not keep up,
// and how much later than that device it released a result; empty when nothing is paced.
func (s *Snapshot) paced(before *Snapshot) string {
	var devices []string
	for _, m := range s.Members {
		if strings.HasPrefix(m.Device, pacedPrefix) && !slices.Contains(devices, m.Device) {
			devices = append(devices, m.Device)
		}
	}
	if len(devices) == 0 {
		return ""
	}
	slices.Sort(devices)
	return fmt.Sprintf("%s   experts take that device's time and memory, not this machine's; late: results %s   loads %s   each result by %s\n",
		strings.Join(devices, ", "), share(s.sum(statPacedLate), s.sum(statPacedComputes)), share(s.sum(statPacedLoadLate), s.sum(statPacedLoads)),
		s.mean(before, statPacedSeconds, statPacedComputes))
}

// longestDevice is more than any name of a device has.
const longestDevice = 64

// deviceOf is a member's word for its device, if it can be shown.
func deviceOf(name string) string {
	switch {
	case name == "":
		return "-"
	case len(name) > longestDevice || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "?"
	}
	return name
}

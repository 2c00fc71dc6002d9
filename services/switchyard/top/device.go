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

// paced names the paced devices, and says whose times the figures are, how often this
// machine did not keep up, and how much later than that device it released a result; empty
// when nothing is paced.
func (s *Snapshot) paced() (devices, says string) {
	var names []string
	for _, m := range s.Members {
		if strings.HasPrefix(m.Device, pacedPrefix) && !slices.Contains(names, m.Device) {
			names = append(names, m.Device)
		}
	}
	if len(names) == 0 {
		return "", ""
	}
	slices.Sort(names)
	late, _ := s.meanOf(statPacedSeconds, statPacedComputes)
	return strings.Join(names, ", "), fmt.Sprintf("experts take that device's time and memory, not this machine's; late: results %s   loads %s   each result by %s",
		share(s.sum(statPacedLate), s.sum(statPacedComputes)), share(s.sum(statPacedLoadLate), s.sum(statPacedLoads)), seconds(late))
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

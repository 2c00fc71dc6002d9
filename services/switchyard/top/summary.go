package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Summary is what operators ask first. What is not known is null.
type Summary struct {
	// TokensPerSecond are made now, over the last seconds that were heard.
	TokensPerSecond *float64 `json:"tokens_per_s"`
	// TTFTSeconds and AnswerSeconds are means over the requests that ended in these
	// seconds or, if Recent is false, since the start of the replicas that are here.
	TTFTSeconds   *float64 `json:"ttft_seconds"`
	AnswerSeconds *float64 `json:"answer_seconds"`
	Recent        bool     `json:"recent"`
	// Running are computed now; Waiting have been accepted, and nobody computes them yet:
	// as prompts, as sequences, or in attention replicas.
	Running  float64  `json:"running"`
	Waiting  *float64 `json:"waiting"`
	Requests float64  `json:"requests_total"`
	Tokens   float64  `json:"tokens_total"`
	// Failed requests were accepted, Refused ones were not.
	Failed      float64 `json:"requests_failed_total"`
	Refused     float64 `json:"refused_total"`
	KVPages     float64 `json:"kv_pages"`
	KVPagesUsed float64 `json:"kv_pages_used"`
	// Brownout is absent while each row has its own experts.
	Brownout *Brownout `json:"brownout,omitempty"`
}

// Brownout is the lowest thresholds that an attention replica stamps on its steps.
type Brownout struct {
	Prefill float64 `json:"prefill"`
	Decode  float64 `json:"decode"`
	// Floored says that steps take longer than they are to all the same, and no threshold may be
	// lower: new requests are refused.
	Floored bool `json:"floored"`
}

// brownout returns nil where no replica tells of one.
func (s *Snapshot) brownout() (lowest *Brownout) {
	for _, m := range s.Members {
		prefill, told := m.Stats[members.BrownoutPrefill]
		if !told {
			continue
		}
		if lowest == nil {
			lowest = &Brownout{Prefill: 1, Decode: 1}
		}
		lowest.Prefill, lowest.Decode = min(lowest.Prefill, prefill), min(lowest.Decode, m.Stats[members.BrownoutDecode])
		lowest.Floored = lowest.Floored || m.Stats[members.BrownoutFloored] > 0
	}
	return lowest
}

// judge sums up the rest of a snapshot.
func (s *Snapshot) judge() {
	said := make([]*pb.Member, len(s.Members))
	for i := range s.Members {
		said[i] = s.Members[i].said
	}
	s.Missing = append([]members.Lack{}, members.Lacking(said)...)
	for i := range s.Missing {
		s.Missing[i].Why = clean(s.Missing[i].Why)
	}
	if s.Serving = len(s.Missing) == 0; !s.Serving {
		s.Missing = append(s.Missing, s.gaps()...)
	}
	s.Summary = Summary{
		TokensPerSecond: s.rateOf(members.Tokens), Running: max(0, s.sum(members.Active)-s.sum(members.InLine)), Waiting: s.waiting(),
		Requests: s.sum(members.Requests), Tokens: s.sum(members.Tokens), Failed: s.sum(members.Failed), Refused: s.sum(members.Refused),
		KVPages: s.sum(members.KVPages), KVPagesUsed: s.sum(members.KVPagesUsed),
		Brownout: s.brownout(),
	}
	now, recent := s.meanOf(members.FirstTokenSeconds, members.FirstTokens)
	s.Summary.TTFTSeconds, s.Summary.Recent = now, recent
	s.Summary.AnswerSeconds, _ = s.meanOf(members.RequestSeconds, members.Finished)
}

func (s *Snapshot) gaps() (out []members.Lack) {
	for _, r := range s.Replicas {
		var nowhere []int
		for e := range r.Warm {
			if r.Warm[e] == 0 && r.Cold[e] == 0 {
				nowhere = append(nowhere, e)
			}
		}
		if len(nowhere) > 0 {
			out = append(out, members.Lack{Stage: "expert", Why: fmt.Sprintf("layer %d: no live host takes rows for %s", r.Layer, experts(nowhere))})
		}
	}
	return out
}

// experts lists expert ids, those that follow one another as ranges.
func experts(ids []int) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		part := strconv.Itoa(ids[i])
		if j > i {
			part += "-" + strconv.Itoa(ids[j])
		}
		parts, i = append(parts, part), j+1
	}
	if len(ids) == 1 {
		return "expert " + parts[0]
	}
	return "experts " + strings.Join(parts, ", ")
}

func (s *Snapshot) sum(stat string) (total float64) {
	for _, m := range s.Members {
		total += m.Stats[stat]
	}
	return total
}

// rateOf adds up the rates of those who have one; nil: nobody has.
func (s *Snapshot) rateOf(stat string) *float64 {
	return sumOf(s.Members, func(m *Member) (float64, bool) { rate, ok := m.Rates[stat]; return rate, ok })
}

func sumOf(all []Member, of func(*Member) (float64, bool)) *float64 {
	var total *float64
	for i := range all {
		if v, ok := of(&all[i]); ok {
			if total == nil {
				total = new(float64)
			}
			*total += v
		}
	}
	return total
}

// meanOf returns the mean of a sum of seconds over its count: of what ended while the members
// were heard or, if nothing did, since their start; nil: nothing has ever ended.
func (s *Snapshot) meanOf(seconds, count string) (mean *float64, recent bool) {
	grown := func(name string) (total float64) {
		for _, m := range s.Members {
			total += m.grown[name]
		}
		return total
	}
	sum, n := grown(seconds), grown(count)
	if recent = n > 0; !recent {
		sum, n = s.sum(seconds), s.sum(count)
	}
	if n <= 0 {
		return nil, false
	}
	value := sum / n
	return &value, recent
}

// waiting returns the prompts and sequences that nobody has taken, and the sequences that wait
// in attention replicas; nil where the queues could not be seen.
func (s *Snapshot) waiting() *float64 {
	n := s.waitInside()
	for stage := range groups {
		i := slices.IndexFunc(s.Queues, func(q Queue) bool { return q.Stage == stage })
		switch {
		case i < 0: // there is no such stream, so nothing waits in it
		case s.Queues[i].Waiting == nil:
			return nil
		default:
			n += float64(*s.Queues[i].Waiting)
		}
	}
	return &n
}

// waitInside returns how many sequences wait in attention replicas: for their turn, or for pages.
func (s *Snapshot) waitInside() float64 { return s.sum(members.Waiting) + s.sum(members.InLine) }

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

// deviceOf returns a member's word for its device, if it can be shown.
func deviceOf(name string) string {
	switch {
	case name == "":
		return "-"
	case len(name) > longestDevice || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "?"
	}
	return name
}

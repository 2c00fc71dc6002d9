package top

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Member is a live replica.
type Member struct {
	ID       string `json:"id"`
	Service  string `json:"service"`
	Ready    bool   `json:"ready"`
	Draining bool   `json:"draining"`
	// Trouble is why it is not ready, in its own words.
	Trouble string `json:"trouble"`
	Device  string `json:"device"`
	// Host, PID, Version and UptimeSeconds are where it runs, and since when; empty or 0
	// of versions that do not say it.
	Host          string             `json:"host"`
	PID           uint32             `json:"pid"`
	Version       string             `json:"version"`
	UptimeSeconds float64            `json:"uptime_seconds"`
	Stats         map[string]float64 `json:"stats"`
	// Rates are how much those of Stats that count have grown a second, in RateSeconds;
	// none where it was heard once only.
	Rates       map[string]float64 `json:"rates"`
	RateSeconds float64            `json:"rate_seconds"`

	model uint64
	said  *pb.Member
	// grown is what the counters have grown by in RateSeconds.
	grown map[string]float64
}

// rated are the counters whose rates are shown.
var rated = []string{members.Tokens, members.HostRows, members.StepRows, members.RoutedRows, members.Requests, members.Finished, members.RequestSeconds, members.FirstTokens, members.FirstTokenSeconds, members.Failed, members.Refused, statPacedSeconds, statPacedComputes}

func memberOf(s *seen) Member {
	first, last := s.looks[0], s.looks[len(s.looks)-1]
	m := last.member
	out := Member{
		ID: m.Id, Service: clean(m.Service), Ready: m.Ready, Draining: m.Draining, Trouble: clean(m.Trouble), Device: deviceOf(m.Device),
		Host: clean(m.Host), PID: m.Pid, Version: clean(m.Version), UptimeSeconds: finite(m.UptimeSeconds), Stats: finites(m.Stats),
		Rates: map[string]float64{}, model: m.ModelHash, said: m, grown: map[string]float64{},
	}
	out.RateSeconds = between(first, last)
	if out.RateSeconds <= 0 {
		return out
	}
	for _, name := range rated {
		now, counts := m.Stats[name]
		if grown := finite(now - first.member.Stats[name]); counts && grown >= 0 {
			out.grown[name], out.Rates[name] = grown, grown/out.RateSeconds
		}
	}
	return out
}

// between returns the seconds from one look to a later one: by the member's clock, which its
// counters go by, or else by this one's.
func between(first, last look) float64 {
	if d := finite(last.member.GetUptimeSeconds() - first.member.GetUptimeSeconds()); d > 0 {
		return d
	}
	return last.at.Sub(first.at).Seconds()
}

// finite returns what JSON can say, and sums can have.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

func finites(stats map[string]float64) map[string]float64 {
	out := maps.Clone(stats)
	if out == nil {
		return map[string]float64{}
	}
	for name, v := range out {
		out[name] = finite(v)
	}
	return out
}

// clean makes what a member says fit for one line and its columns: characters that are not
// printable, or wider than one column in some terminals, become question marks.
func clean(text string) string {
	const most = 512
	runes := []rune(text)
	for i, c := range runes {
		if !unicode.IsPrint(c) || c > unicode.MaxLatin1 && c != '…' && c != '’' {
			runes[i] = '?'
		}
	}
	return string(runes[:min(len(runes), most)])
}

// membersOf lists who lives, service by service in the order of a token's way.
func membersOf(r *roster, now time.Time) []Member {
	list := []Member{}
	for _, s := range r.alive(now) {
		list = append(list, memberOf(s))
	}
	slices.SortStableFunc(list, func(a, b Member) int {
		return cmp.Or(cmp.Compare(serviceRank(a.Service), serviceRank(b.Service)), cmp.Compare(a.Service, b.Service), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// serviceRank returns a service's place: those that a token passes come first.
func serviceRank(service string) int {
	services := catalog.Names()
	if i := slices.Index(services, service); i >= 0 {
		return i
	}
	return len(services)
}

// State returns one word for what the member is doing.
func (m *Member) State() string {
	switch {
	case m.Draining:
		return "draining"
	case m.Ready && m.Trouble != "":
		return "troubled"
	case m.Ready:
		return "ready"
	}
	return "not ready"
}

// rows returns the routed rows of an expert host, those of steps of an attention replica, and
// those that a gate has routed, in all or a second; false where a service counts none.
func (m *Member) rows(of map[string]float64) (n float64, counts bool) {
	for _, name := range []string{members.HostRows, members.StepRows, members.RoutedRows} {
		if n, counts = of[name]; counts {
			return n, true
		}
	}
	return 0, m.Service == "expert" // a host says so when it has computed some
}

// View returns a snapshot as text with everything in it, however long and wide that is. With
// the one before it shows the experts' rates, else totals since their hosts' starts.
func (s *Snapshot) View(before *Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s\n", s.title(), gap, s.Time.Format("15:04:05"))
	for _, line := range s.reasons(0) {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintln(&b, strings.Join(s.figures(), gap))
	for _, g := range s.groups(before) {
		fmt.Fprintf(&b, "\n%s%s%s\n", g.title, gap, g.brief)
		if len(g.table.rows) == 0 {
			continue
		}
		lines, _ := g.table.lines(0, 0)
		fmt.Fprintln(&b, strings.Join(lines, "\n"))
	}
	return b.String()
}

// since returns the seconds from one snapshot to the next; 0 without one.
func (s *Snapshot) since(before *Snapshot) float64 {
	if before == nil {
		return 0
	}
	return s.Time.Sub(before.Time).Seconds()
}

// rate returns the rows a second since the snapshot before, or the totals without one.
// What a host had computed before it was first heard is in no rate.
func (l Layer) rate(before *Snapshot, seconds float64) []float64 {
	if seconds <= 0 {
		return floats(l.Rows)
	}
	rows := floats(l.heard)
	i := slices.IndexFunc(before.Layers, func(b Layer) bool { return b.Layer == l.Layer })
	for expert := range rows {
		if i >= 0 && expert < len(before.Layers[i].heard) {
			rows[expert] = max(0, rows[expert]-float64(before.Layers[i].heard[expert])) // counted anew
		}
		rows[expert] /= seconds
	}
	return rows
}

func floats(counts []uint64) []float64 {
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = float64(n)
	}
	return out
}

var barRunes = []rune("▁▂▃▄▅▆▇█")

// bars draws a rune an expert, scaled to the largest; a blank for none.
func bars(rows []float64) string {
	top := slices.Max(rows)
	out := make([]rune, len(rows))
	for i, n := range rows {
		out[i] = '·'
		if n > 0 {
			out[i] = barRunes[int(n/top*float64(len(barRunes)-1))]
		}
	}
	return string(out)
}

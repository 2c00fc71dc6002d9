package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
)

// group is a part of the page that opens and closes.
type group struct {
	key   string
	title string
	brief string // beside the title, open or not
	table table
}

// groupKeys name the groups, in the order of the page; the digits that open them count
// from 1.
var groupKeys = []string{"services", "replicas", "hosts", "streams", "experts", "placement", "devices"}

// groups returns all of them; those with nothing in them, too, so that digits mean the same.
func (s *Snapshot) groups(before *Snapshot) []group {
	all := []group{s.services(), s.replicasGroup(), s.hosts(), s.streams(), s.load(before), s.placement()}
	if plans, byLoads := s.plans(); byLoads {
		all = append(all, plans)
	}
	return append(all, s.devices())
}

// services returns a line a service.
func (s *Snapshot) services() group {
	g := group{key: "services", title: "Services", table: table{head: []string{"SERVICE", "READY", "TOKENS/S", "ROWS/S", "ROWS", "ERRORS", "MISSING"}}}
	var brief []string
	for _, name := range s.serviceNames() {
		of := ofService(s.Members, name)
		ready := count2(of, func(m *Member) bool { return m.State() == "ready" })
		brief = append(brief, fmt.Sprintf("%s %d/%d", name, ready, len(of)))
		g.table.add(name, fmt.Sprintf("%d of %d", ready, len(of)), number(sumOf(of, tokensRate)), number(sumOf(of, rowsRate)), number(sumOf(of, rowsTotal)), number(sumOf(of, errorsOf)), s.why(name, of))
	}
	g.brief = strings.Join(brief, gap)
	return g
}

// serviceNames returns those that a token passes, whoever is here, and what else is here.
func (s *Snapshot) serviceNames() []string {
	names := members.StageNames()
	for _, m := range s.Members {
		if !slices.Contains(names, m.Service) {
			names = append(names, m.Service)
		}
	}
	return names
}

// why says what a service lacks: that it is the stage that is missing, and why, or else the
// first of the troubles that its replicas say, such as another stage that is missing.
func (s *Snapshot) why(stage string, of []Member) string {
	for _, l := range s.Missing {
		if l.Stage == stage {
			return l.Why
		}
	}
	for i := range of {
		if of[i].Trouble != "" {
			return of[i].ID + ": " + of[i].Trouble
		}
	}
	return ""
}

func ofService(all []Member, name string) []Member {
	return slices.DeleteFunc(slices.Clone(all), func(m Member) bool { return m.Service != name })
}

func count2(all []Member, is func(*Member) bool) (n int) {
	for i := range all {
		if is(&all[i]) {
			n++
		}
	}
	return n
}

func tokensRate(m *Member) (float64, bool) { rate, ok := m.Rates[members.Tokens]; return rate, ok }

func rowsRate(m *Member) (float64, bool) { return m.rows(m.Rates) }

func rowsTotal(m *Member) (float64, bool) { return m.rows(m.Stats) }

func errorsOf(m *Member) (float64, bool) {
	failed, fails := m.Stats[members.Failed]
	refused, refuses := m.Stats[members.Refused]
	return failed + refused, fails || refuses || m.Service == "attention" || m.Service == "tokenizer"
}

// replicasGroup returns a line a replica.
func (s *Snapshot) replicasGroup() group {
	g := group{key: "replicas", title: "Replicas", table: table{head: []string{
		"REPLICA", "STATE", "TOKENS/S", "ROWS/S", "ROWS", "RUNNING", "WAITING", "ERRORS", "KV PAGES", "UP", "HOST", "PID", "VERSION", "DEVICE", "TROUBLE",
	}}}
	for i := range s.Members {
		m := &s.Members[i]
		g.table.add(m.ID, m.State(), of(tokensRate, m), of(rowsRate, m), of(rowsTotal, m), running(m), inside(m), of(errorsOf, m),
			share(m.Stats[members.KVPagesUsed], m.Stats[members.KVPages]), uptime(m.UptimeSeconds), cmp.Or(m.Host, "-"), pid(m.PID), cmp.Or(m.Version, "-"), m.Device, m.Trouble)
	}
	unready := count2(s.Members, func(m *Member) bool { return m.State() != "ready" })
	g.brief = fmt.Sprintf("%d here", len(s.Members))
	if unready > 0 {
		g.brief += fmt.Sprintf(", %d not ready", unready)
	}
	if len(s.Members) == 0 {
		g.brief = "(no replica is alive)"
	}
	return g
}

func of(what func(*Member) (float64, bool), m *Member) string {
	if v, ok := what(m); ok {
		return number(&v)
	}
	return "-"
}

func running(m *Member) string {
	active, ok := m.Stats[members.Active]
	if !ok {
		return "-"
	}
	n := max(0, active-m.Stats[members.InLine])
	return number(&n)
}

func inside(m *Member) string {
	waiting, ok := m.Stats[members.Waiting]
	if !ok {
		return "-"
	}
	n := waiting + m.Stats[members.InLine]
	return number(&n)
}

func pid(n uint32) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(int(n))
}

// hosts returns a line a machine: what runs there. Its rows are those of its expert hosts alone:
// what gates and attention count are the same rows once more, at other stages.
func (s *Snapshot) hosts() group {
	g := group{key: "hosts", title: "Hosts", table: table{head: []string{"HOST", "REPLICAS", "PROCESSES", "TOKENS/S", "ROWS/S", "VERSION", "SERVICES"}}}
	by := map[string][]Member{}
	for _, m := range s.Members {
		by[m.Host] = append(by[m.Host], m)
	}
	for _, host := range slices.Sorted(maps.Keys(by)) {
		here := by[host]
		versions, pids, kinds := map[string]bool{}, map[uint32]bool{}, map[string]int{}
		for _, m := range here {
			versions[cmp.Or(m.Version, "-")], pids[m.PID] = true, true
			kinds[m.Service]++
		}
		g.table.add(cmp.Or(host, "(unsaid)"), strconv.Itoa(len(here)), strconv.Itoa(len(pids)), number(sumOf(here, tokensRate)), number(sumOf(ofService(here, "expert"), rowsRate)), strings.Join(slices.Sorted(maps.Keys(versions)), " "), counted(kinds))
	}
	g.brief = fmt.Sprintf("%d", len(by))
	return g
}

// counted lists services in the order of a token's way.
func counted(kinds map[string]int) string {
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(serviceRank(a), serviceRank(b)), cmp.Compare(a, b))
	})
	for i, name := range names {
		if n := kinds[name]; n > 1 {
			names[i] = fmt.Sprintf("%s×%d", name, n)
		}
	}
	return strings.Join(names, " ")
}

// streams returns a line a stage; the layers of EXPERT are one.
func (s *Snapshot) streams() group {
	g := group{key: "streams", title: "Streams", table: table{head: []string{"STREAM", "WAITING", "IN HAND", "MESSAGES", "BYTES", "DEEPEST LAYER"}}}
	for _, stage := range queueStages {
		q, deepest, found := s.stream(stage)
		if found {
			g.table.add(stage, whole(q.Waiting), whole(q.InHand), strconv.FormatUint(q.Messages, 10), strconv.FormatUint(q.Bytes, 10), deepest)
		}
	}
	g.brief = "waiting " + number(s.Summary.Waiting)
	if inside := s.waitInside(); inside > 0 {
		g.brief += fmt.Sprintf(" (%.0f of them in attention)", inside)
	}
	return g
}

// stream adds up a stage's streams.
func (s *Snapshot) stream(stage string) (total Queue, deepest string, found bool) {
	most := uint64(0)
	total.Waiting = new(uint64)
	for _, q := range s.Queues {
		if kind, _, _ := strings.Cut(q.Stage, "-"); kind != stage {
			continue
		}
		found = true
		total.Messages += q.Messages
		total.Bytes += q.Bytes
		total.InHand = q.InHand
		if q.Waiting == nil {
			total.Waiting = nil
		} else if total.Waiting != nil {
			*total.Waiting += *q.Waiting
		}
		if stage == "EXPERT" && q.Messages > most {
			most, deepest = q.Messages, fmt.Sprintf("%s: %d", q.Stage, q.Messages)
		}
	}
	return total, deepest, found
}

func whole(n *uint64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatUint(*n, 10)
}

// load returns how even each layer's load is, and a bar an expert.
func (s *Snapshot) load(before *Snapshot) group {
	unit := "ROWS"
	if s.since(before) > 0 {
		unit = "ROWS/S"
	}
	g := group{key: "experts", title: "Load of experts", table: table{head: []string{"LAYER", unit, "HOTTEST", "MEAN/MAX", "EXPERTS"}}}
	g.brief = layers(len(s.Layers))
	least := 1.0
	for _, l := range s.Layers {
		rows := l.rate(before, s.since(before))
		total, hottest := 0.0, 0
		for i, n := range rows {
			total += n
			if n > rows[hottest] {
				hottest = i
			}
		}
		if rows[hottest] <= 0 { // nothing was computed: no expert is the hottest, and nothing is even
			g.table.add(strconv.Itoa(l.Layer), "0", "-", "-", bars(rows))
			continue
		}
		even := total / float64(len(rows)) / rows[hottest]
		if even < least {
			least, g.brief = even, fmt.Sprintf("%s, least even: layer %d, mean/max %.2f", layers(len(s.Layers)), l.Layer, even)
		}
		g.table.add(strconv.Itoa(l.Layer), fmt.Sprintf("%.0f", total), fmt.Sprintf("%d: %.0f", hottest, rows[hottest]), fmt.Sprintf("%.2f", even), bars(rows))
	}
	if s.RefusedSamples > 0 {
		g.brief += fmt.Sprintf("; messages about loads that no host of this model sent: %d", s.RefusedSamples)
	}
	return g
}

func layers(n int) string {
	switch n {
	case 0:
		return "nothing computed yet"
	case 1:
		return "1 layer"
	}
	return fmt.Sprintf("%d layers", n)
}

// placement returns a line a layer: where its experts are.
func (s *Snapshot) placement() group {
	g := group{key: "placement", title: "Replicas of experts", table: table{head: []string{
		"LAYER", "WARM", "KEPT", "COLD", fmt.Sprintf("REPLICAS (cold starts: %.0f%s)", s.sum(statColdStarts), s.memory()),
	}}}
	warm, nowhere := 0, 0
	for _, r := range s.Replicas {
		warm += total(r.Warm)
		for e := range r.Warm {
			if r.Warm[e]+r.Kept[e]+r.Cold[e] == 0 {
				nowhere++
			}
		}
		g.table.add(strconv.Itoa(r.Layer), strconv.Itoa(total(r.Warm)), strconv.Itoa(total(r.Kept)), strconv.Itoa(total(r.Cold)), r.glyphs())
	}
	g.brief = fmt.Sprintf("%d warm", warm)
	if nowhere > 0 {
		g.brief += fmt.Sprintf(", experts of layers that no host has: %d", nowhere)
	}
	return g
}

// memory returns what experts in hosts' memory have come to; empty: no host says it.
func (s *Snapshot) memory() string {
	held, taken := s.sum(members.HostHeld), s.sum(members.HostTaken)
	if held <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.1f GB·s, %.0f %% idle", held, 100*max(0, held-taken)/held)
}

// devices returns what GPUs say of themselves, and whose time paced ones take.
func (s *Snapshot) devices() group {
	g := group{key: "devices", title: "Devices", table: table{head: []string{"DEVICE", "WHAT IT SAYS"}}}
	if name, what := s.paced(); name != "" {
		g.table.add(name, what)
	}
	for i := range s.Members {
		m := &s.Members[i]
		if words := m.gpu(); len(words) > 0 {
			g.table.add("GPU of "+m.ID, strings.Join(words, gap))
		}
	}
	kinds := map[string]int{}
	for _, m := range s.Members {
		if m.Device != "-" && m.Device != "" {
			kinds[m.Device]++
		}
	}
	g.brief = counted(kinds)
	return g
}

// number shows a number in few characters; "-" where there is none.
func number(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v >= 1e9:
		return fmt.Sprintf("%.1fG", *v/1e9)
	case *v >= 1e6:
		return fmt.Sprintf("%.1fM", *v/1e6)
	case *v >= 1e5:
		return fmt.Sprintf("%.0fk", *v/1e3)
	case *v >= 10 || *v == float64(int(*v)):
		return fmt.Sprintf("%.0f", *v)
	}
	return fmt.Sprintf("%.1f", *v)
}

// seconds shows a time of requests; "-" where there is none.
func seconds(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v < 0.001:
		return fmt.Sprintf("%.0f µs", 1e6**v)
	case *v < 1:
		return fmt.Sprintf("%.0f ms", 1000**v)
	}
	return fmt.Sprintf("%.1f s", *v)
}

// uptime shows an age by its two largest units; "-" for one that is not said.
func uptime(s float64) string {
	d := time.Duration(s) * time.Second
	switch {
	case s <= 0:
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// share shows how much of something is used.
func share(used, of float64) string {
	if of <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f of %.0f (%.0f%%)", used, of, 100*used/of)
}

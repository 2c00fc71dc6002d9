package gate

import (
	"slices"
	"strconv"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/quarantine"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// addresses says where the rows of one message go: to a function's group, in which
// whoever is free takes them, or to hosts by name. Usually groups get them. They go by
// name while a host may hang, past a host that is slow, and when they were lost
// before: a group would give such a host its share.
type addresses struct {
	subjects schemas.Subjects
	hosts    roster
	slow     func() map[string]quarantine.State // hosts that are not trusted

	key    *pb.Key // of the message
	steady bool    // nobody hangs, as far as is known
	// heard are the hosts that surely live, true for those that stay, and order are
	// these by name; none when all rows go to groups.
	heard  map[string]bool
	order  []string
	states map[string]quarantine.State
}

// roster is members.Roster's part that addressing needs.
type roster interface {
	Doubt()
	Steady() bool
	Heard() []*pb.Member
}

// look takes in which hosts live and are slow now, for the rows of a key.
func (a *addresses) look(key *pb.Key) {
	a.key, a.heard, a.order = key, nil, nil
	if key.Attempt > 0 {
		a.hosts.Doubt()
	}
	if a.steady, a.states = a.hosts.Steady(), a.slow(); a.steady && a.states == nil {
		return
	}
	a.heard = map[string]bool{}
	for _, m := range a.hosts.Heard() {
		if a.heard[m.Id] = !m.Draining; !m.Draining {
			a.order = append(a.order, m.Id)
		}
	}
	slices.Sort(a.order)
}

// ways returns how a function's rows go to its hosts: evenly, a message to each that gets some.
func (a *addresses) ways(t *plan.Target) ways {
	if to := a.byName(t); len(to) > 0 {
		return ways{parts: len(to), hosts: to}
	}
	return ways{parts: max(1, len(t.Hosts))}
}

// byName returns the hosts that get a function's rows by name; none if its group does.
func (a *addresses) byName(t *plan.Target) []string {
	if len(a.heard) == 0 || len(t.Hosts) == 0 {
		return nil
	}
	live := slices.DeleteFunc(slices.Clone(t.Hosts), func(h string) bool { return !a.heard[h] })
	fast := slices.DeleteFunc(slices.Clone(live), a.passed)
	switch {
	case a.key.Attempt > 0:
		return a.another(t, fast, live)
	case a.steady && (len(fast) == 0 || !slices.ContainsFunc(live, a.doubtful)):
		return nil
	case len(fast) > 0:
		return fast
	case len(live) == 0 && !slices.ContainsFunc(t.Hosts, a.leaves):
		return first(a.others(t))
	}
	return live
}

// triedOnce is in how many messages a host that is tried gets rows once.
const triedOnce = 8

// passed reports whether a host is slow, so that others get its rows.
func (a *addresses) passed(host string) bool {
	switch a.states[host] {
	case quarantine.Avoided:
		return true
	case quarantine.Tried:
		return (a.key.Step+uint64(a.key.Layer))%triedOnce != 0
	}
	return false
}

func (a *addresses) doubtful(host string) bool { return a.states[host] != quarantine.Trusted }

// leaves reports whether a host lives, and serves for as long as its rows are not
// wanted elsewhere.
func (a *addresses) leaves(host string) bool {
	stays, lives := a.heard[host]
	return lives && !stays
}

// another returns the host that gets a function's lost rows: with each attempt another one
// of those that have it warm, and then one that has it not and may load it: what loses
// rows may be heard all the time. Slow ones come last.
func (a *addresses) another(t *plan.Target, fast, live []string) []string {
	all := slices.Clone(fast)
	if others := a.others(t); len(others) > 0 {
		all = append(all, others[0], others[0], others[min(1, len(others)-1)]) // the first one may be loading still
	}
	for _, h := range live {
		if !slices.Contains(fast, h) {
			all = append(all, h)
		}
	}
	if len(all) == 0 {
		return nil
	}
	at := int(a.key.Attempt-1) % len(all)
	if at < len(fast) { // not all lost rows go to one host
		at = int((a.key.Step + uint64(a.key.Part) + uint64(a.key.Attempt)) % uint64(len(fast)))
	}
	return all[at : at+1]
}

// others returns the fast hosts that have a function not; each function begins with
// another one, and always with the same.
func (a *addresses) others(t *plan.Target) (ids []string) {
	if len(a.order) == 0 {
		return nil
	}
	number, _ := strconv.ParseUint(t.Id, 16, 64) // 0: an id of another form
	at := int(number % uint64(len(a.order)))
	for _, h := range slices.Concat(a.order[at:], a.order[:at]) {
		if !slices.Contains(t.Hosts, h) && !a.doubtful(h) {
			ids = append(ids, h)
		}
	}
	return ids
}

func first(ids []string) []string { return ids[:min(1, len(ids))] }

// address names the function in a message to a host, and returns the subject.
func (a *addresses) address(out outgoing) string {
	if out.host != "" {
		out.Function = out.function
		return a.subjects.Host(out.host)
	}
	return a.subjects.Expert(int(a.key.Layer), out.function)
}

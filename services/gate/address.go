package gate

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// addresses says where the rows of one message go: to a function's group, in which
// whoever is free takes them, or to hosts by name. Usually groups get them. While a
// host may hang, or when the rows were lost before, they go by name: a group would
// give a hung host its share.
type addresses struct {
	subjects schemas.Subjects
	hosts    roster

	key *pb.Key // of the message
	// heard are the hosts that surely live; none when groups get the rows.
	heard map[string]bool
	// named are the hosts of the functions that are addressed by name.
	named map[string][]string
}

// roster is members.Roster's part that addressing needs.
type roster interface {
	Doubt()
	Steady() bool
	Heard() []*pb.Member
}

// choose decides for the rows of a key.
func (a *addresses) choose(key *pb.Key) {
	a.key, a.heard, a.named = key, nil, nil
	if key.Attempt > 0 {
		a.hosts.Doubt()
	}
	if a.hosts.Steady() {
		return
	}
	a.heard, a.named = map[string]bool{}, map[string][]string{}
	for _, m := range a.hosts.Heard() {
		if !m.Draining {
			a.heard[m.Id] = true
		}
	}
}

// parts is into how many messages a function's rows are split: one for each host
// that gets some.
func (a *addresses) parts(t *plan.Target) int {
	if len(a.heard) > 0 {
		live := slices.DeleteFunc(slices.Clone(t.Hosts), func(h string) bool { return !a.heard[h] })
		if to := chosen(live, a.key); len(to) > 0 {
			a.named[t.Id] = to
			return len(to)
		}
	}
	return max(1, len(t.Hosts))
}

// chosen are the hosts of those of a function that get its rows: all of them; or
// one, for rows that were lost. The next attempt gets another one: what loses rows
// may be heard all the time.
func chosen(live []string, key *pb.Key) []string {
	if key.Attempt == 0 || len(live) == 0 {
		return live
	}
	first := key.Step + uint64(key.Part) // so that not all lost rows go to one host
	at := int((first + uint64(key.Attempt)) % uint64(len(live)))
	return live[at : at+1]
}

// address names the function in a message to a host, and returns the subject.
func (a *addresses) address(out outgoing) string {
	if hosts := a.named[out.function]; out.part < len(hosts) {
		out.Function = out.function
		return a.subjects.Host(hosts[out.part])
	}
	return a.subjects.Expert(int(a.key.Layer), out.function)
}

package gate

import (
	"slices"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// addresses says where the rows of one message go. Usually that is the
// functions' groups, in which any host may take them. While a host may hang,
// or when the rows were lost before, they go to hosts by name: the group would
// give a hung host its share of them.
type addresses struct {
	subjects schemas.Subjects
	plan     *planSwitch
	hosts    roster

	key *pb.Key // of the message
	// heard are the hosts that surely live, the one heard last first; none
	// when groups do.
	heard []string
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
	a.key, a.heard, a.named = key, a.heard[:0], nil
	if key.Attempt > 0 {
		a.hosts.Doubt()
	}
	if a.hosts.Steady() {
		return
	}
	for _, m := range a.hosts.Heard() {
		if !m.Draining && m.PlanVersion > 0 {
			a.heard = append(a.heard, m.Id)
		}
	}
	a.named = map[string][]string{}
}

// parts is into how many messages a function's rows are split.
func (a *addresses) parts(f *pb.Function) int {
	if len(a.heard) == 0 {
		return a.plan.warmReplicas(f)
	}
	hosts, ok := a.named[f.Id]
	if !ok {
		hosts = chosen(a.heard, f.Hosts, a.key.Attempt)
		a.named[f.Id] = hosts
	}
	if len(hosts) == 0 {
		return a.plan.warmReplicas(f)
	}
	return len(hosts)
}

// chosen are the hosts of a function that get its rows: all that are heard; or
// only one, and another one with each attempt, for rows that were lost. One
// that is heard may still be what loses them.
func chosen(heard, hosts []string, attempt uint32) []string {
	var live []string
	for _, h := range heard {
		if slices.Contains(hosts, h) {
			live = append(live, h)
		}
	}
	if attempt == 0 || len(live) == 0 {
		return live
	}
	at := int(attempt-1) % len(live)
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

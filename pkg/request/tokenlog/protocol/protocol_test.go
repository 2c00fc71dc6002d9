// Package protocol holds a model of the writers of a request's log, and a test that
// visits all its states: two attention replicas, a cancellation, appends
// that are late, lost or sent again, crashes at any moment, foreign messages,
// and deliveries that come again while the owner lives.
//
//	take the sequence ─▶ read the log ─▶ claim(epoch+1) ─▶ tokens ─▶ end ─▶ acknowledge
//	                              │            └─doubtful─▶ trial ─▶ token, or over
//	                              └─crashed owners in trials─▶ end
//
// In every state the log is one that all readers take whole (tokenlog.Chain), no
// owner believes in what is not stored, a request that is acknowledged has its
// end, and where nothing more can happen it has one, too. One whose step takes its
// owners down takes a few, and no other is blamed for theirs.
package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The model of who writes a request's log: every state that a few replicas, a
// server, lost messages, crashes, strangers and a cancellation can bring about
// (model_test.go). Each wrong rule below was or could be somebody's idea;
// each must show as a violation, or the model would see nothing.
func TestProtocol(t *testing.T) {
	if testkit.Race {
		t.Skip("it runs in one goroutine, and takes ten times as long under the race detector")
	}
	small := budget{takes: 2, losses: 1, noise: 1, cancels: 1}
	for _, tc := range []struct {
		name   string
		rules  rules
		budget budget
		broken string // what is violated; empty: nothing
	}{
		{name: "as it is", budget: small},
		{name: "replicas that die again and again", budget: budget{takes: 3, crashes: 3}},
		{name: "a late append of a dead replica", budget: budget{takes: 2, crashes: 1, losses: 1}},
		{name: "appends without the last sequence", rules: rules{unguarded: true}, budget: small, broken: "passed over"},
		{name: "a conflict taken for success", rules: rules{conflictIsSuccess: true}, budget: small, broken: "believes"},
		{name: "a conflict always taken for another owner", rules: rules{conflictIsLoss: true}, budget: small, broken: "gives up"},
		{name: "acknowledged before the end is stored", rules: rules{ackEarly: true}, budget: small, broken: "acknowledged without an end"},
		{name: "a claim of an epoch that is read no more", rules: rules{staleEpoch: true}, budget: small, broken: "passed over"},
		{name: "a first token that takes its owners down", rules: rules{deadly: 1}, budget: budget{takes: 1, losses: 1}},
		{name: "a later one", rules: rules{deadly: 2}, budget: budget{crashes: 1, pieces: 1, cancels: 1}},
		{name: "what takes owners down is stepped without a record", rules: rules{deadly: 1, unrecorded: true}, broken: "owners went down"},
		{name: "every owner that made nothing is a crash", rules: rules{ownersBlame: true}, budget: budget{takes: 1, crashes: 2}, broken: "blamed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := explore(tc.rules, tc.budget)
			t.Logf("%d states, %d of them the end of everything", len(m.states), m.ends)
			switch {
			case tc.broken == "" && m.violation != "":
				t.Errorf("%s, after\n  %s", m.violation, strings.Join(m.trace, "\n  "))
			case tc.broken != "" && !strings.Contains(m.violation, tc.broken):
				t.Errorf("the wrong rule is not noticed: %q; want %q", m.violation, tc.broken)
			case tc.broken == "" && m.ends == 0:
				t.Error("no request ever ended")
			}
		})
	}
}

// answer is how many tokens the model's request has.
const answer = 2

// opened is the request's acceptance, the first message of its log.
var opened = &pb.Accept{
	Identity: &pb.Identity{Version: schemas.Version}, PromptTokens: 1, MaxTokens: answer, PromptSequence: 1,
}

// judge reads a log as every reader does.
func judge(log []message) (c tokenlog.Chain, err error) {
	c = tokenlog.NewChain(tokenlog.Rules{Vocab: 8, Positions: 8})
	for i, m := range log {
		if m.kind == noise {
			continue
		}
		if _, err := c.Take(m.record()); err != nil {
			return c, fmt.Errorf("message %d, %v, is passed over: %w", i, m, err)
		}
	}
	return c, c.Broken()
}

// check says what is wrong with a state.
func (s *state) check() string {
	c, err := judge(s.log)
	if err != nil {
		return err.Error()
	}
	if s.fault != "" {
		return s.fault
	}
	if s.acked && c.End() == nil {
		return "the request is acknowledged without an end"
	}
	if fault := s.checkBlame(); fault != "" {
		return fault
	}
	for i, o := range s.owners {
		if o.phase != writing {
			continue
		}
		own := slices.IndexFunc(s.log, func(m message) bool { return m.kind == claim && m.epoch == o.epoch })
		if own < 0 || s.log[own].writer != i {
			return fmt.Sprintf("owner %d believes in a claim that is not in the log", i)
		}
		if tokens := count(s.log, token); o.next > tokens {
			return fmt.Sprintf("owner %d believes that %d tokens are stored; there are %d", i, o.next, tokens)
		}
	}
	return ""
}

// mostDeaths is how many owners what is deadly may take down: one that made something
// before, those that cause doubt, and those that try it alone.
const mostDeaths = 1 + 2 + 2

// checkBlame says what is wrong with who is taken for deadly.
func (s *state) checkBlame() string {
	if s.deaths > mostDeaths {
		return fmt.Sprintf("%d owners went down", s.deaths)
	}
	if blamed := count(s.log, crashed) > 0; blamed && s.alone < 2 {
		return fmt.Sprintf("the request is blamed for crashes; %d were while it alone was stepped", s.alone)
	}
	return ""
}

func count(log []message, k kind) (n int) {
	for _, m := range log {
		if m.kind == k {
			n++
		}
	}
	return n
}
